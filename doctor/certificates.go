package doctor

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// expiresSoon is when doctor starts to warn: cert-manager renews a 90 day certificate 30 days ahead, so one with less
// than 14 days left was not renewed.
const expiresSoon = 14 * 24 * time.Hour

// examineCertificates looks at the webhook's serving certificate itself, whoever issued it.
func examineCertificates(s Snapshot) []Finding {
	subject := "Secret/" + s.Serving.Secret
	switch {
	case !s.Serving.Found:
		return []Finding{{
			Severity: Fail, Subject: subject,
			Message: "the webhook's serving certificate does not exist, so the webhook cannot start",
			Advice:  "install cert-manager, or give the chart certs.existingSecret; if the Secret has another name, name it with --webhook-secret",
		}}
	case len(s.Serving.Chain) == 0:
		return []Finding{{
			Severity: Fail, Subject: subject,
			Message: "tls.crt holds no certificate, so the webhook cannot start",
			Advice:  s.origin("let cert-manager issue it again: delete the Secret", "write the certificate and its key into the Secret, as tls.crt and tls.key"),
		}}
	}
	return s.expiry(subject, s.Serving.Chain[0].NotAfter,
		s.origin(renewNow, "renew it where it comes from, and write it and its key into the Secret"),
		s.origin(seeWhy, "renew it where it comes from, and write it and its key into the Secret"))
}

// examineIssuance asks cert-manager's own word for each Certificate.
func examineIssuance(s Snapshot) []Finding {
	if len(s.Issued) == 0 {
		return []Finding{{Severity: OK, Message: "the release has no Certificate of cert-manager's: the serving certificate is somebody else's to renew"}}
	}
	var found []Finding
	for _, c := range s.Issued {
		subject := "Certificate/" + c.Name
		if !c.Ready {
			found = append(found, Finding{
				Severity: Fail, Subject: subject,
				Message: fmt.Sprintf("cert-manager has not issued the certificate (%s)", orUnknown(c.Reason)),
				Advice:  fmt.Sprintf("see what hinders it: kubectl describe certificate -n %s %s", s.Release, c.Name),
			})
			continue
		}
		found = append(found, s.expiry(subject, c.Expires, renewNow, seeWhy)...)
	}
	return found
}

// What to do about a certificate of cert-manager's.
const (
	renewNow = "renew it: cmctl renew, or delete the Secret; then see why it was not renewed in time"
	seeWhy   = "see whether cert-manager runs and may write the Secret"
)

// origin chooses what to do about the serving certificate: it is cert-manager's, somebody else's, or, where cert-manager's word could not
// be read, one of both.
func (s Snapshot) origin(managed, foreign string) string {
	switch _, unread := s.Unread[SourceIssuance]; {
	case slices.ContainsFunc(s.Issued, func(c Certificate) bool { return c.Secret == s.Serving.Secret }):
		return managed
	case unread:
		return "if it is cert-manager's, " + managed + "; else " + foreign
	default:
		return foreign
	}
}

// expiry judges an end of validity, and says what to do after and shortly before; the zero time is unknown.
func (s Snapshot) expiry(subject string, end time.Time, after, before string) []Finding {
	switch left := end.Sub(s.Now); {
	case end.IsZero():
		return nil
	case left <= 0:
		return []Finding{{
			Severity: Fail, Subject: subject,
			Message: fmt.Sprintf("expired on %s: the API server no longer trusts it, and pods that need the webhook are refused", end.UTC().Format(time.DateOnly)),
			Advice:  after,
		}}
	case left < expiresSoon:
		return []Finding{{
			Severity: Warn, Subject: subject,
			Message: fmt.Sprintf("expires on %s and should have been renewed by now", end.UTC().Format(time.DateOnly)),
			Advice:  before,
		}}
	}
	return nil
}

// examineCABundles holds each entry's caBundle against the serving certificate, as an API server would.
func examineCABundles(s Snapshot) []Finding {
	var found []Finding
	for _, e := range s.entries() {
		if f := s.caBundle(e); f != nil {
			found = append(found, *f)
		}
	}
	if _, missing := s.Unread[SourceSecrets]; missing && len(found) == 0 && len(s.entries()) > 0 {
		found = append(found, Finding{
			Severity: Warn, Subject: string(SourceSecrets),
			Message: "caBundles are there, but could not be held against the serving certificate, which could not be read: " + s.Unread[SourceSecrets],
			Advice:  "run doctor as somebody who may read the Secret in the release's namespace",
		})
	}
	return found
}

func (s Snapshot) caBundle(e entry) *Finding {
	f := &Finding{Severity: Fail, Subject: e.subject(), Advice: s.origin(
		"see whether cert-manager's cainjector runs and the annotation cert-manager.io/inject-ca-from names the CA's Certificate",
		"give the chart the certificate of the authority that issued it: certs.caBundle")}
	if len(e.client.CABundle) == 0 {
		f.Message = "caBundle is empty: the API server cannot trust the webhook, and " + consequence(e.failurePolicy)
		return f
	}
	roots, unreadable := certificates(e.client.CABundle)
	if unreadable || len(roots) == 0 {
		f.Message = "caBundle is not a list of PEM certificates: the API server cannot trust the webhook, and " + consequence(e.failurePolicy)
		return f
	}
	if len(s.Serving.Chain) == 0 {
		return nil
	}
	if err := verify(s, e, roots); err != nil {
		f.Message = "the serving certificate does not verify against caBundle for the entry's Service (" + err.Error() + "): " + consequence(e.failurePolicy)
		return f
	}
	return nil
}

// verify does what the API server does on every call.
func verify(s Snapshot, e entry, roots []*x509.Certificate) error {
	opts := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: s.Now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, c := range roots {
		opts.Roots.AddCert(c)
	}
	for _, c := range s.Serving.Chain[1:] {
		opts.Intermediates.AddCert(c)
	}
	opts.DNSName, _ = e.target()
	_, err := s.Serving.Chain[0].Verify(opts)
	return err
}

// consequence says what a webhook that cannot be called means.
func consequence(p *admissionregistrationv1.FailurePolicyType) string {
	if p != nil && *p == admissionregistrationv1.Ignore {
		return "what the entry checks goes unchecked"
	}
	return "the pods and jobs it serves are refused"
}

// certificates reads PEM. Anything that is not a certificate makes it unreadable.
func certificates(data []byte) (list []*x509.Certificate, unreadable bool) {
	for len(bytes.TrimSpace(data)) > 0 {
		block, rest := pem.Decode(data)
		if block == nil || block.Type != "CERTIFICATE" {
			return nil, true
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, true
		}
		list, data = append(list, c), rest
	}
	return list, false
}

// ParseCertificates reads the certificates of a tls.crt or ca.crt; nil when it holds anything else.
func ParseCertificates(data []byte) []*x509.Certificate {
	list, _ := certificates(data)
	return list
}

func orUnknown(s string) string {
	if s == "" {
		return "no reason given"
	}
	return s
}
