package doctor

import (
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
