package policy

import "github.com/lanyard-k8s/lanyard/api/wire"

// defaults are the settings of the chart's default values, with one publisher and one submitter.
func defaults() Settings {
	return Settings{
		Mode:              Enforce,
		Jobs:              true,
		PublisherAudience: wire.DefaultPublisherAudience,
		JobAudience:       wire.DefaultJobAudience,
		JobTokenFile:      wire.DefaultJobMountPath + "/" + wire.TokenFile,
		Publishers:        []string{"gpu/monitor"},
		PublisherAccounts: []string{"system:serviceaccount:lanyard:csp-health-monitor"},
		ReleaseAccounts:   []string{"system:serviceaccount:lanyard:lanyard-connector"},
		TokenRequesters:   []string{"system:serviceaccount:tools:minter"},
		Kinds: []Kind{{
			Group: "batch", Kind: "Job", Resource: "jobs",
			PodCreators:    []string{"system:serviceaccount:kube-system:job-controller"},
			AdoptionLabels: []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"},
		}},
		Delegating: []Controller{{
			Identity: "system:serviceaccount:kube-system:cronjob-controller", Parents: []string{"batch/CronJob"},
		}},
		Submitters:         []string{"system:serviceaccount:ci:runner"},
		TemplateEditors:    []string{"system:serviceaccount:kueue-system:kueue-controller-manager"},
		TemplatePaths:      []string{"x.example.com/Trainer:spec.workers.template", "x.example.com/Trainer:spec.head"},
		ExcludedNamespaces: []string{"kube-system", "kube-public", "kube-node-lease", "lanyard"},
		SocketConnector:    connectorAccount,
		ForeignConditions:  []string{"KernelDeadlock", "Another.Owner"},
	}
}

// managedNamespace and publisherNamespace are the labels of such namespaces.
func managedNamespace() map[string]string { return map[string]string{wire.LabelJobs: wire.JobsManaged} }

func publisherNamespace() map[string]string {
	return map[string]string{wire.LabelPublishers: wire.PublishersEnabled}
}
