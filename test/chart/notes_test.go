//go:build unix

package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// NOTES.txt is only shown by helm install, which wants a cluster; its text is a named template, which a copy of the chart
// renders into a ConfigMap.
const notesTemplate = `apiVersion: v1
kind: ConfigMap
metadata: {name: notes}
data: {notes: {{ include "lanyard.notes" . | toJson }}}
`

func TestNotes(t *testing.T) {
	t.Parallel()
	h := findHelm(t)
	copied := filepath.Join(t.TempDir(), "lanyard")
	if err := os.CopyFS(copied, os.DirFS(h.chart)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(copied, "templates/notes-as-object.yaml"), []byte(notesTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	h.chart = copied
	for name, tc := range map[string]struct {
		args    []string
		want    []string
		wantNot []string
	}{
		"by default it says how to label, and to begin with audit": {
			want: []string{
				"kubectl label namespace NAMESPACE lanyard.dev/jobs=managed", "lanyard.dev/publishers=enabled", "begin with admission.mode: audit",
				"apiServerCIDRs is empty", "lanyard-platform-admin",
			},
			wantNot: []string{"not a supported production configuration", "helm -n"},
		},
		"the namespaces that are meant are named": {
			args: []string{"--set", "jobs.namespaces={training,eval}"},
			want: []string{"kubectl label namespace training lanyard.dev/jobs=managed", "kubectl label namespace eval lanyard.dev/jobs=managed", "helm -n lanyard test lanyard"},
		},
		"authentication off is no production configuration": {
			args: []string{"-f", "testdata/profiles/disabled.yaml"},
			want: []string{"not a supported production configuration", "no job gets a subject token", "Next: enabled: true with mode: audit"}, wantNot: []string{"lanyard.dev/jobs=managed", "lanyard.dev/publishers=enabled"},
		},
		"audit says when to end it": {args: []string{"-f", "testdata/profiles/audit.yaml"}, want: []string{"admission.mode is audit"}, wantNot: []string{"apiServerCIDRs is empty"}},
		"bundled monitors on the list are named": {
			args: []string{"--set", "global.platformConnectorAuth.crossNodeServiceAccounts={system:serviceaccount:nvsentinel:csp-health-monitor}"},
			want: []string{"lists bundled monitors: system:serviceaccount:nvsentinel:csp-health-monitor", "Remove them"},
		},
		"another audience and path are pointed out": {
			args: []string{"--set", "global.platformConnectorAuth.audience=x,global.platformConnectorAuth.tokenMountPath=/var/run/secrets/y"},
			want: []string{"Changing an audience has an order", "docs/upgrade.md#change-audience-or-tokenmountpath", "mounted at /var/run/secrets/y"},
		},
		"the nodes' connector: its directory, its namespace and its neighbour": {
			want:    []string{"/var/run/nvsentinel/nvsentinel.sock", "pod-security.kubernetes.io/enforce=privileged", "Beside a running NVSentinel", "Chart and images move together"},
			wantNot: []string{"50051"},
		},
		"no connector": {args: []string{"--set", "connector.socket.enabled=false"}, want: []string{"No connector is installed"}, wantNot: []string{"Beside a running NVSentinel", "Chart and images move together", "50051"}},
		"forwarding needs the CA's ConfigMap, which the exchange makes": {
			args: []string{"-f", "testdata/profiles/forward.yaml"},
			want: []string{
				"hand events to lanyard-connector.lanyard.svc:50051", "wait until the exchange has\nwritten ConfigMap lanyard-ca of namespace lanyard", "goes with the pod",
			},
			wantNot: []string{"connector.deployment.publishers is not given", "create configmap"},
		},
		"it does so where no namespace is managed, and that is still said": {
			args: []string{"-f", "testdata/profiles/forward.yaml", "--set-json", "publishers=[]"},
			want: []string{"written ConfigMap lanyard-ca", "WARNING: jobs.namespaces is empty"},
		},
		"without the exchange somebody else makes it": {
			args: []string{"-f", "testdata/profiles/forward.yaml", "--set", "exchange.replicas=0"},
			want: []string{"wait until ConfigMap\nlanyard-ca of namespace lanyard holds", "create configmap lanyard-ca --from-file=ca.crt"}, wantNot: []string{"wait until the exchange"},
		},
		"a ConfigMap of another name is somebody else's": {
			args: []string{"-f", "testdata/profiles/forward.yaml", "--set", "connector.socket.sinks.forward.caConfigMap=mine"},
			want: []string{"wait until ConfigMap\nmine of namespace lanyard holds", "create configmap mine --from-file=ca.crt"}, wantNot: []string{"wait until the exchange"},
		},
		"a Deployment that everybody may call": {args: []string{"-f", "testdata/profiles/job-kinds.yaml"}, want: []string{"connector.deployment.publishers is not given", "drained"}},
		"settings that the Deployment does not have": {
			args: []string{"-f", "testdata/profiles/deployment.yaml"},
			want: []string{"the Deployment always\nenforces", "wait for Secret events-database with the data source name under dsn", "lists bundled monitors: system:serviceaccount:lanyard:csp-health-monitor"}, wantNot: []string{"goes with the pod", "Beside a running"},
		},
		"node binding in audit": {args: []string{"-f", "testdata/profiles/audit.yaml"}, want: []string{"Node binding is in mode audit"}},
		"the exchange": {
			args: []string{"-f", "testdata/profiles/exchange.yaml"},
			want: []string{
				"The exchange answers at https://lanyard-exchange.lanyard.svc:8443", "port-forward deploy/lanyard-exchange 8444",
				"PersistentVolumeClaim lanyard-exchange-store: one replica", "Secret lanyard-exchange-keys and PersistentVolumeClaim", "cannot exec into pods",
			},
			wantNot: []string{"exchange.replicas is 0", "jobs.namespaces is empty"},
		},
		"the exchange on a database, known by another name": {
			args:    []string{"-f", "testdata/profiles/exchange-postgres.yaml", "--set", "exchange.issuer="},
			want:    []string{"its tokens name https://auth.example.com", "create secret generic exchange-database --from-file=dsn=FILE --from-file=direct=FILE", "name the namespace of what leads there in gateway.namespaces"},
			wantNot: []string{"PersistentVolumeClaim", "jobs.namespaces is empty", "Secret lanyard-exchange-keys"},
		},
		"the exchange may write nowhere": {want: []string{"WARNING: jobs.namespaces is empty", "--set 'jobs.namespaces={NAMESPACE}'", "ConfigMap lanyard-gateway", "storageClassName", "monitoring.prometheusRule.enabled"}, wantNot: []string{"exchange.replicas is 0"}},
		"the rules without the program": {
			args: []string{"-f", "testdata/profiles/rules-only.yaml"},
			want: []string{"exchange.replicas is 0", "Next, before people submit: exchange.replicas: 1", "templateEditors"}, wantNot: []string{"lanyard-gateway", "The exchange answers", "Secret lanyard-exchange-keys"},
		},
		"without cert-manager the Secrets are named": {
			args: []string{"-f", "testdata/profiles/no-cert-manager.yaml"},
			want: []string{
				"create secret tls webhook-certificate", "create secret generic exchange-certificate --from-file=tls.crt --from-file=tls.key --from-file=ca.crt", "lanyard-exchange.lanyard.svc",
				"lanyard doctor --namespace lanyard --webhook-secret webhook-certificate",
			},
			wantNot: []string{"get pods,certificates", "lanyard-connector.lanyard.svc"},
		},
		"with alerts there is nothing to say of them": {args: []string{"-f", "testdata/profiles/exchange.yaml"}, wantNot: []string{"monitoring.prometheusRule.enabled"}},
		"alerts on what nobody scrapes":               {args: []string{"--set", "monitoring.prometheusRule.enabled=true"}, want: []string{"WARNING: alerts are on and scraping is off"}, wantNot: []string{"Alerts, dashboards and scraping are off", "counted twice"}},
		"two ways of scraping": {
			args: []string{"--set", "monitoring.prometheusRule.enabled=true,monitoring.podMonitor.enabled=true,monitoring.serviceMonitor.enabled=true"},
			want: []string{"everything is counted twice"}, wantNot: []string{"scraping is off"},
		},
		"an image that nobody has":    {want: []string{"WARNING: the image is lanyard-k8s/lanyard:0.1.0", "ImagePullBackOff"}},
		"an image of one's own":       {args: []string{"--set", "image.repository=r.example/lanyard"}, wantNot: []string{"ImagePullBackOff"}},
		"an image by its digest":      {args: []string{"-f", "testdata/profiles/job-kinds.yaml"}, wantNot: []string{"ImagePullBackOff"}},
		"one replica of the webhook":  {args: []string{"--set", "webhook.replicas=1"}, want: []string{"WARNING: webhook.replicas is 1", "fail closed"}},
		"two replicas of the webhook": {wantNot: []string{"webhook.replicas is"}},
		"policies off":                {args: []string{"-f", "testdata/profiles/no-policies.yaml"}, want: []string{"the policies are off", "admission.policies.enabled: true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := h.Template(t.Context(), append([]string{"--show-only", "templates/notes-as-object.yaml"}, tc.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			var object struct{ Data struct{ Notes string } }
			if err := yaml.Unmarshal(out, &object); err != nil {
				t.Fatal(err)
			}
			for _, w := range tc.want {
				if !strings.Contains(object.Data.Notes, w) {
					t.Errorf("the notes do not say %q:\n%s", w, object.Data.Notes)
				}
			}
			for _, w := range tc.wantNot {
				if strings.Contains(object.Data.Notes, w) {
					t.Errorf("the notes say %q:\n%s", w, object.Data.Notes)
				}
			}
		})
	}
}
