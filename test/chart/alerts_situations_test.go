//go:build unix

package chart

// Time begins at the epoch in promtool's tests, so that a certificate's end counts from there.

// situations are by alert.
func situations() map[string]situation {
	return map[string]situation{
		"LanyardWebhookDown":               {series{`up{pod="lanyard-webhook-1"}`: "0x20"}, series{`up{pod="lanyard-webhook-1"}`: "0x20", `up{pod="lanyard-webhook-2"}`: "1x20"}, "10m"},
		"LanyardWebhookCallsFail":          {rejected("calling_webhook_error"), rejected("no_error"), "12m"},
		"LanyardWebhookFailsOpen":          {series{`apiserver_admission_webhook_fail_open_count{name="stamp.mutate.lanyard.dev"}`: "0+1x20"}, series{`apiserver_admission_webhook_fail_open_count{name="else.example.com"}`: "0+1x20"}, "10m"},
		"LanyardAdmissionViolations":       {series{`lanyard_admission_violations_total{reason="reserved_env",mode="audit"}`: "0+1x20"}, series{`lanyard_admission_violations_total{reason="reserved_env",mode="audit"}`: "7x20"}, "10m"},
		"LanyardReviewsNotUnderstood":      {series{`lanyard_admission_decode_errors_total{stage="review"}`: "0+1x20"}, series{`lanyard_admission_decode_errors_total{stage="review"}`: "3x20"}, "10m"},
		"LanyardWebhookCertificateExpires": {series{`lanyard_admission_tls_cert_not_after_seconds{pod="w"}`: "600000x90"}, series{`lanyard_admission_tls_cert_not_after_seconds{pod="w"}`: "700000x90"}, "80m"},
		"LanyardWebhookTurnsAway":          {perPod("lanyard_admission_connections_refused_total", "0+1x30"), perPod("lanyard_admission_connections_refused_total", "7x30"), "25m"},

		"LanyardConnectorViolations":         {violated("node_mismatch"), violated("validator_timeout"), "10m"},
		"LanyardConnectorValidatorTrouble":   {violated("validator_timeout"), violated("node_mismatch"), "15m"},
		"LanyardConnectorFailsOpen":          {series{`lanyard_connector_degraded_batches_total{pod="c"}`: "0+1x20"}, series{`lanyard_connector_degraded_batches_total{pod="c"}`: "4x20"}, "10m"},
		"LanyardConnectorNotReady":           {perPod("lanyard_connector_ready", "0x20"), perPod("lanyard_connector_ready", "1x20"), "10m"},
		"LanyardConnectorSpoolFills":         {filled("60"), filled("40"), "15m"},
		"LanyardConnectorRecordPutAside":     {series{`lanyard_connector_spool_quarantined_total{reason="given_up",pod="c",namespace="l"}`: "0x5 1x20"}, series{`lanyard_connector_spool_quarantined_total{reason="given_up",pod="c",namespace="l"}`: "0x20"}, "10m"},
		"LanyardConnectorBatchWaits":         {perPod("lanyard_connector_spool_oldest_age_seconds", "4000x20"), perPod("lanyard_connector_spool_oldest_age_seconds", "3000x20"), "10m"},
		"LanyardConnectorSinkFails":          {series{`lanyard_connector_sink_batches_dropped_total{sink="kubernetes"}`: "0+1x20"}, series{`lanyard_connector_sink_batches_dropped_total{sink="kubernetes"}`: "2x20"}, "10m"},
		"LanyardConnectorSocketReplaced":     {perPod("lanyard_connector_socket_replaced_total", "0x5 1x20"), perPod("lanyard_connector_socket_replaced_total", "1x20"), "10m"},
		"LanyardConnectorCertificateExpires": {perPod("lanyard_connector_tls_cert_not_after_seconds", "600000x90"), perPod("lanyard_connector_tls_cert_not_after_seconds", "0x90"), "80m"},
		"LanyardConnectorTurnsAway":          {perPod("lanyard_connector_connections_refused_total", "0+1x30"), perPod("lanyard_connector_connections_refused_total", "0x5 7x25"), "25m"},

		"LanyardPoliciesDrift":               {series{`lanyard_exchange_policies{state="drift"}`: "1x20"}, series{`lanyard_exchange_policies{state="drift"}`: "0x20", `lanyard_exchange_policies{state="in_order"}`: "1x20"}, "1m"},
		"LanyardPoliciesRollout":             {series{`lanyard_exchange_policies{state="rollout"}`: "1x60"}, series{`lanyard_exchange_policies{state="rollout"}`: "1x15 0x45"}, "50m"},
		"LanyardExchangeStoreDown":           {perPod("lanyard_exchange_store_up", "0x20"), perPod("lanyard_exchange_store_up", "1x20"), "10m"},
		"LanyardExchangeDown":                {series{`up{pod="lanyard-exchange-1"}`: "0x20"}, series{`up{pod="lanyard-exchange-1"}`: "1x20"}, "10m"},
		"LanyardExchangeNotReady":            {perPod("lanyard_exchange_ready", "0x20"), perPod("lanyard_exchange_ready", "1x20"), "10m"},
		"LanyardExchangeRefuses":             {asked("audience"), asked("row_pending"), "40m"},
		"LanyardExchangeNobodyJudges":        {series{`lanyard_exchange_leader{pod="a"}`: "0x20", `lanyard_exchange_leader{pod="b"}`: "0x20"}, series{`lanyard_exchange_leader{pod="a"}`: "0x20", `lanyard_exchange_leader{pod="b"}`: "1x20"}, "10m"},
		"LanyardExchangeClockSkew":           {perPod("lanyard_exchange_clock_skew_seconds", "-40x20"), perPod("lanyard_exchange_clock_skew_seconds", "-20x20"), "10m"},
		"LanyardExchangeKeyMissing":          {series{`lanyard_exchange_signing_keys{state="active"}`: "0x20"}, series{`lanyard_exchange_signing_keys{state="active"}`: "1x20"}, "10m"},
		"LanyardExchangeKeyAges":             {series{`lanyard_exchange_key_rotations_total{outcome="failed"}`: "0+1x130"}, series{`lanyard_exchange_key_rotations_total{outcome="done"}`: "0+1x130"}, "120m"},
		"LanyardExchangeKeyOld":              {aged("2700000"), aged("2600000"), "80m"},
		"LanyardExchangeOrphanedSubmissions": {perPod("lanyard_exchange_orphaned_submissions", "1x30"), perPod("lanyard_exchange_orphaned_submissions", "0x30"), "20m"},
		"LanyardExchangeTurnsAway":           {perPod("lanyard_exchange_connections_refused_total", "0+1x30"), perPod("lanyard_exchange_connections_refused_total", "7x30"), "25m"},
		"LanyardExchangeCertificateExpires":  {perPod("lanyard_exchange_tls_cert_not_after_seconds", "600000x90"), perPod("lanyard_exchange_tls_cert_not_after_seconds", "700000x90"), "80m"},
	}
}

func perPod(metric, values string) series { return series{metric + `{pod="c",namespace="l"}`: values} }

// aged is a key that has signed for so many seconds, of which the rules give it thirty days.
func aged(seconds string) series {
	return series{
		`lanyard_exchange_signing_key_age_seconds{pod="c",namespace="l"}`:       seconds + "x90",
		`lanyard_exchange_key_rotation_interval_seconds{pod="c",namespace="l"}`: "2592000x90",
	}
}

func rejected(why string) series {
	return series{`apiserver_admission_webhook_rejection_count{name="job.mutate.lanyard.dev",error_type="` + why + `"}`: "0+1x20"}
}

func violated(reason string) series {
	return series{`platform_connector_auth_violations_total{reason="` + reason + `"}`: "0+1x20"}
}

func filled(percent string) series {
	return series{
		`lanyard_connector_spool_bytes{pod="c",namespace="l"}`:       percent + "x20",
		`lanyard_connector_spool_limit_bytes{pod="c",namespace="l"}`: "100x20",
	}
}

func asked(outcome string) series {
	return series{`lanyard_exchange_requests_total{outcome="` + outcome + `"}`: "0+60x60", `lanyard_exchange_requests_total{outcome="granted"}`: "0+600x60"}
}
