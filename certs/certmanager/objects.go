// Package certmanager holds what Lanyard asks of cert-manager, as its API types, and waits until it has been done: a
// namespaced self-signed issuer signs a long-lived authority, whose issuer signs the programs' serving certificates, and
// the authority's certificate is injected into the webhook configurations.
//
// It is apart from package certs so that the servers, which only read files, do not carry cert-manager's API.
package certmanager

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of the objects that every installation has, as in the chart.
const (
	SelfSignedIssuer = "lanyard-selfsigned"
	Authority        = "lanyard-ca" // the Certificate, its Secret and the Issuer that signs with it
	WebhookTLS       = "lanyard-webhook-tls"
)

// Lifetimes. The authority's key never changes, so that leaves signed before a renewal are good after it, and a year is
// time enough for every copy of the old certificate to be replaced.
const (
	day             = 24 * time.Hour
	authorityLife   = 10 * 365 * day
	authorityRenew  = 365 * day
	leafLife        = 90 * day
	leafRenew       = 30 * day
	cainjectorCAKey = "cert-manager.io/inject-ca-from"
)

// Leaf is one serving certificate: the Certificate's and its Secret's name, and the Service it is for.
type Leaf struct {
	Name    string
	Service string
}

// Objects lists the whole chain in a namespace, in the order of creation.
func Objects(namespace string, leaves ...Leaf) []client.Object {
	out := []client.Object{
		&cmv1.Issuer{
			TypeMeta: typeMeta(cmv1.IssuerKind), ObjectMeta: objectMeta(namespace, SelfSignedIssuer),
			Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}},
		},
		authority(namespace),
		&cmv1.Issuer{
			TypeMeta: typeMeta(cmv1.IssuerKind), ObjectMeta: objectMeta(namespace, Authority),
			Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: Authority}}},
		},
	}
	for _, l := range leaves {
		out = append(out, leaf(namespace, l))
	}
	return out
}

func authority(namespace string) *cmv1.Certificate {
	return &cmv1.Certificate{
		TypeMeta: typeMeta(cmv1.CertificateKind), ObjectMeta: objectMeta(namespace, Authority),
		Spec: cmv1.CertificateSpec{
			IsCA: true, CommonName: Authority, SecretName: Authority,
			Duration: &metav1.Duration{Duration: authorityLife}, RenewBefore: &metav1.Duration{Duration: authorityRenew},
			PrivateKey: privateKey(cmv1.RotationPolicyNever), IssuerRef: issuer(SelfSignedIssuer),
		},
	}
}

func leaf(namespace string, l Leaf) *cmv1.Certificate {
	host := fmt.Sprintf("%s.%s.svc", l.Service, namespace)
	return &cmv1.Certificate{
		TypeMeta: typeMeta(cmv1.CertificateKind), ObjectMeta: objectMeta(namespace, l.Name),
		Spec: cmv1.CertificateSpec{
			SecretName: l.Name, DNSNames: []string{host, host + ".cluster.local"},
			Duration: &metav1.Duration{Duration: leafLife}, RenewBefore: &metav1.Duration{Duration: leafRenew},
			Usages:     []cmv1.KeyUsage{cmv1.UsageDigitalSignature, cmv1.UsageServerAuth},
			PrivateKey: privateKey(cmv1.RotationPolicyAlways), IssuerRef: issuer(Authority),
		},
	}
}

// InjectFrom is the annotation that makes cert-manager's cainjector write the authority's certificate into a webhook
// configuration. It names the authority and not a leaf: a leaf's Secret changes with every renewal, the authority's not.
func InjectFrom(namespace string) (key, value string) {
	return cainjectorCAKey, namespace + "/" + Authority
}

func privateKey(policy cmv1.PrivateKeyRotationPolicy) *cmv1.CertificatePrivateKey {
	return &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm, Size: 256, RotationPolicy: policy}
}

func issuer(name string) cmmeta.IssuerReference {
	return cmmeta.IssuerReference{Group: "cert-manager.io", Kind: cmv1.IssuerKind, Name: name}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: cmv1.SchemeGroupVersion.String(), Kind: kind}
}

func objectMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
