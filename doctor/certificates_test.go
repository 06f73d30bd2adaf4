package doctor

import (
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

func TestCertificateFaults(t *testing.T) {
	t.Parallel()
	otherCA, _ := issue(t, now.Add(80*day))
	runFaults(t, map[string]fault{
		"an empty caBundle": {
			func(s *Snapshot) { s.job().ClientConfig.CABundle = nil },
			CheckCABundle, Fail, jobEntry, "caBundle is empty: the API server cannot trust the webhook, and the pods and jobs it serves are refused",
		},
		"an empty caBundle where failures are ignored": {
			func(s *Snapshot) {
				s.job().ClientConfig.CABundle = nil
				s.job().FailurePolicy = new(admissionregistrationv1.Ignore)
			},
			CheckCABundle, Fail, jobEntry, "goes unchecked",
		},
		"a caBundle that is no PEM": {
			func(s *Snapshot) { s.job().ClientConfig.CABundle = []byte("Cg==") },
			CheckCABundle, Fail, jobEntry, "not a list of PEM certificates",
		},
		"a caBundle of another CA": {
			func(s *Snapshot) { s.job().ClientConfig.CABundle = otherCA },
			CheckCABundle, Fail, jobEntry, "does not verify",
		},
		"a certificate for another Service": {
			func(s *Snapshot) { s.job().ClientConfig.Service.Name = "other" },
			CheckCABundle, Fail, jobEntry, "other.nvsentinel.svc",
		},
		"no serving certificate": {
			func(s *Snapshot) { s.Serving.Found = false; s.Serving.Chain = nil },
			CheckCertificates, Fail, "Secret/lanyard-webhook-tls", "does not exist",
		},
		"an empty serving certificate": {
			func(s *Snapshot) { s.Serving.Chain = nil },
			CheckCertificates, Fail, "Secret/lanyard-webhook-tls", "holds no certificate",
		},
		"an expired serving certificate": {
			func(s *Snapshot) { s.Now = now.Add(81 * day) },
			CheckCertificates, Fail, "Secret/lanyard-webhook-tls", "expired on 2027-02-18",
		},
		"a serving certificate that was not renewed": {
			func(s *Snapshot) { s.Now = now.Add(70 * day) },
			CheckCertificates, Warn, "Secret/lanyard-webhook-tls", "expires on 2027-02-18",
		},
		"a Certificate that is not ready": {
			func(s *Snapshot) { s.Issued[0].Ready = false; s.Issued[0].Reason = "DoesNotExist" },
			CheckIssuance, Fail, "Certificate/lanyard-webhook-tls", "DoesNotExist",
		},
		"a Certificate that expired": {
			func(s *Snapshot) { s.Issued[0].Expires = now.Add(-time.Hour) },
			CheckIssuance, Fail, "Certificate/lanyard-webhook-tls", "expired",
		},
	})
}

// TestAdviceKnowsWhoseCertificateItIs: what is not cert-manager's is not cert-manager's to mend.
func TestAdviceKnowsWhoseCertificateItIs(t *testing.T) {
	t.Parallel()
	foreign := func(s *Snapshot) { s.Issued = []Certificate{{Name: "other", Secret: "other", Ready: true}} }
	late := func(s *Snapshot) { s.Now = now.Add(70 * day); s.Issued[0].Expires = time.Time{} }
	expired := func(s *Snapshot) { s.Now = now.Add(81 * day); s.Issued[0].Expires = time.Time{} }
	for name, tc := range map[string]struct {
		change []func(*Snapshot)
		check  Check
		want   string
	}{
		"it ends soon":                         {[]func(*Snapshot){late}, CheckCertificates, "see whether cert-manager runs and may write the Secret"},
		"it ends soon, and is somebody else's": {[]func(*Snapshot){late, foreign}, CheckCertificates, "renew it where it comes from, and write it and its key into the Secret"},
		"it has ended":                         {[]func(*Snapshot){expired}, CheckCertificates, "renew it: cmctl renew, or delete the Secret; then see why it was not renewed in time"},
		"it has ended, and is somebody else's": {[]func(*Snapshot){expired, foreign}, CheckCertificates, "renew it where it comes from, and write it and its key into the Secret"},
		"it ends soon, and nobody says whose it is": {[]func(*Snapshot){late, func(s *Snapshot) {
			s.Issued, s.Unread[SourceIssuance] = nil, "not allowed"
		}}, CheckCertificates, "if it is cert-manager's, see whether cert-manager runs and may write the Secret; else renew it where it comes from, and write it and its key into the Secret"},
		"it is empty":                         {[]func(*Snapshot){func(s *Snapshot) { s.Serving.Chain = nil }}, CheckCertificates, "let cert-manager issue it again: delete the Secret"},
		"it is empty, and somebody else's":    {[]func(*Snapshot){foreign, func(s *Snapshot) { s.Serving.Chain = nil }}, CheckCertificates, "write the certificate and its key into the Secret, as tls.crt and tls.key"},
		"no caBundle, and it is foreign":      {[]func(*Snapshot){foreign, func(s *Snapshot) { s.job().ClientConfig.CABundle = nil }}, CheckCABundle, "give the chart the certificate of the authority that issued it: certs.caBundle"},
		"no caBundle, and it is cert-manager": {[]func(*Snapshot){func(s *Snapshot) { s.job().ClientConfig.CABundle = nil }}, CheckCABundle, "see whether cert-manager's cainjector runs and the annotation cert-manager.io/inject-ca-from names the CA's Certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			for _, c := range tc.change {
				c(&s)
			}
			var got []string
			for _, f := range Examine(s) {
				if f.Check == tc.check && f.Severity != OK {
					got = append(got, f.Advice)
				}
			}
			if !slices.Contains(got, tc.want) {
				t.Errorf("advice is %q, want %q", got, tc.want)
			}
		})
	}
}
