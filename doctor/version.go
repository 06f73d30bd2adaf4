package doctor

import "fmt"

// The oldest Kubernetes that has every API that the guards need (policies' variables and matchConditions, node claims in
// tokens).
const (
	leastMajor = 1
	leastMinor = 32
)

func examineVersion(s Snapshot) []Finding {
	if s.Major > leastMajor || (s.Major == leastMajor && s.Minor >= leastMinor) {
		return nil
	}
	return []Finding{{
		Severity: Fail,
		Subject:  fmt.Sprintf("Kubernetes %d.%d", s.Major, s.Minor),
		Message:  fmt.Sprintf("Lanyard needs Kubernetes %d.%d or newer: on older ones tokens lack node claims and policies may not compile", leastMajor, leastMinor),
		Advice:   "upgrade the control plane before relying on Lanyard",
	}}
}

func examineInstallation(s Snapshot) []Finding {
	if s.Release != "" {
		return nil
	}
	return []Finding{{
		Severity: Fail,
		Message:  "no installation of Lanyard was found: the webhook configurations do not exist or name no Service",
		Advice:   "install the chart, or name the release's namespace with -n",
	}}
}
