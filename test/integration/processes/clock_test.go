//go:build linux

package processes

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// seconds is a time as a gauge of seconds is written.
func seconds(at time.Time) string { return strconv.FormatFloat(float64(at.Unix()), 'g', -1, 64) }

// late stands in front of the API server and shifts the Date of its answers: from where the exchange stands, that is a clock of one of
// them that is wrong. It returns a kubeconfig that leads there.
func (w *world) late(t *testing.T, shift *atomic.Int64) string {
	t.Helper()
	config, err := w.cp.ConfigFor(exchangeUser, "system:serviceaccounts", "system:serviceaccounts:"+release)
	must(t, err)
	transport, err := rest.TransportFor(config)
	must(t, err)
	target, err := url.Parse(config.Host)
	must(t, err)
	server := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1,
		ModifyResponse: func(r *http.Response) error {
			at, err := http.ParseTime(r.Header.Get("Date"))
			r.Header.Set("Date", at.Add(time.Duration(shift.Load())).UTC().Format(http.TimeFormat))
			return err
		},
	})
	t.Cleanup(server.CloseClientConnections)
	out := clientcmdapi.NewConfig()
	out.Clusters["late"] = &clientcmdapi.Cluster{
		Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	out.AuthInfos["late"] = &clientcmdapi.AuthInfo{}
	out.Contexts["late"] = &clientcmdapi.Context{Cluster: "late", AuthInfo: "late"}
	out.CurrentContext = "late"
	path := filepath.Join(t.TempDir(), "late.yaml")
	must(t, clientcmd.WriteToFile(*out, path))
	return path
}

// nudge changes the namespace, which has the reconciler look at once and not within a minute.
func (h *house) nudge(word string) {
	h.t.Helper()
	_, err := h.admin.CoreV1().Namespaces().Patch(h.t.Context(), h.namespace, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"example.com/nudge":"`+word+`"}}}`), metav1.PatchOptions{})
	must(h.t, err)
}

// TestAClockTenMinutesOff: the exchange's and the API server's differ by ten minutes, either way. What stands goes on; nothing new is
// confirmed, whoever waits is told to come again and not that they are refused; the metric says by how much; and all goes on by itself
// once the clocks agree.
func TestAClockTenMinutesOff(t *testing.T) {
	w := theWorld(t)
	config := w.onSQLite(w.sqliteThatKnows(t))
	w.emptied(t)
	h := w.house(t)
	var shift atomic.Int64
	p := w.replica(t, "late", config, "--kubeconfig="+w.late(t, &shift))
	must(t, p.Start(t.Context()))
	first := h.subject(h.settled(p))
	for i, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		shift.Store(int64(off))
		timing.Within(t, 2*time.Minute, fmt.Sprintf("the metric says %s", -off), func() bool {
			h.nudge(string(strconv.AppendInt(nil, time.Now().UnixMilli(), 10)))
			skew, err := strconv.ParseFloat(p.Metric("lanyard_exchange_clock_skew_seconds"), 64)
			return err == nil && skew < -off.Seconds()+5 && skew > -off.Seconds()-5
		})
		h.wants("a row of before", p, first, http.StatusOK, "")
		token := h.subject(h.pod(fmt.Sprint("unjudged-", i)))
		h.wants("a new pod", p, token, http.StatusServiceUnavailable, "temporarily_unavailable")
		shift.Store(0)
		timing.Within(t, 2*time.Minute, "it is judged once the clocks agree", func() bool { return ask(t.Context(), p, token).status == http.StatusOK })
	}
}
