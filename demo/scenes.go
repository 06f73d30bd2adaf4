//go:build unix

package demo

import "context"

// scene is one thing that Lanyard does, shown on real objects.
type scene struct {
	title string
	play  func(context.Context, *stage) error
}

// scenes lists them in the order in which they are shown.
func scenes() []scene {
	return []scene{
		{"A publisher pod gets its own short-lived token", publisher},
		{"A job is stamped with the user who really submitted it", submitter},
		{"A job may not bring an identity along", impostor},
		{"The webhook stops: managed namespaces wait, the others never notice", outage},
		{"The webhook's configurations are deleted: the policies still refuse", policies},
		{"A connector starts on node-1", fleet},
		{"The exchange starts", broker},
		{"A monitor reports a fault of its own node", ownNode},
		{"It may not report about another node", foreignNode},
		{"A token stolen from node-2 is worth nothing on node-1", stolen},
		{"A deleted pod's token dies with the pod", deleted},
		{"Mode audit lets everything through, counts, and names whom enforce would refuse", audit},
		{"The pod of alice's job acts for alice", onBehalf},
		{"A gateway asks for whom a request is", gateway},
		{"Bob, an editor of the same namespace, tries to act as alice", intruder},
		{"Revoked is revoked at once", revoked},
		{"On one machine, without a cluster: containers act for the users who submitted them", oneMachine},
	}
}

// publisher makes a monitor's pod in a namespace that is open to publishers.
func publisher(ctx context.Context, s *stage) error {
	if err := s.accepted(ctx, "alice", "publisher.yaml"); err != nil {
		return err
	}
	return s.show(ctx, "pod/gpu-monitor", "gpu-monitors",
		wanted{"the token's volume", `{range .spec.volumes[?(@.name=="platform-connector-token")]}{.projected.sources[*].serviceAccountToken}{end}`,
			`{"audience":"platform-connector.nvsentinel.nvidia.com","expirationSeconds":3600,"path":"token"}`},
		wanted{"its mount", `{range .spec.containers[0].volumeMounts[?(@.name=="platform-connector-token")]}{.mountPath} readOnly={.readOnly}{end}`,
			"/var/run/secrets/nvsentinel/platform-connector readOnly=true"},
		wanted{"its variable", `{range .spec.containers[0].env[*]}{.name}={.value}{end}`,
			"PLATFORM_CONNECTOR_TOKEN_PATH=/var/run/secrets/nvsentinel/platform-connector/token"},
		wanted{"what the webhook says it did", `{.metadata.labels.lanyard\.dev/injected}`, "publisher"},
	)
}

// submitter makes a job whose manifest names somebody else as its creator, and looks at the job and at the pod that the job
// controller makes of it.
func submitter(ctx context.Context, s *stage) error {
	if err := s.accepted(ctx, "alice", "job.yaml"); err != nil {
		return err
	}
	if err := s.show(ctx, "job/train", "team-a",
		wanted{"creator of the job (the manifest said bob)", `{.metadata.annotations.lanyard\.dev/created-by}`, "alice"},
	); err != nil {
		return err
	}
	pod, err := s.jobPod(ctx, "team-a", "train")
	if err != nil {
		return err
	}
	return s.show(ctx, "pod/"+pod, "team-a",
		wanted{"creator of its pod", `{.metadata.annotations.lanyard\.dev/created-by}`, "system:serviceaccount:kube-system:job-controller"},
		wanted{"the subject token's volume", `{range .spec.volumes[?(@.name=="nmp-workload-identity")]}{.projected.sources[*].serviceAccountToken}{end}`,
			`{"audience":"nemo-platform","expirationSeconds":600,"path":"token"}`},
		wanted{"its mount", `{range .spec.containers[0].volumeMounts[?(@.name=="nmp-workload-identity")]}{.mountPath} readOnly={.readOnly}{end}`,
			"/var/run/secrets/nemo-platform/workload readOnly=true"},
		wanted{"its variable", `{range .spec.containers[0].env[?(@.name=="NMP_WORKLOAD_IDENTITY_TOKEN_FILE")]}{.name}={.value}{end}`,
			"NMP_WORKLOAD_IDENTITY_TOKEN_FILE=/var/run/secrets/nemo-platform/workload/token"},
	)
}

// impostor makes a job that sets the platform's own variable.
func impostor(ctx context.Context, s *stage) error {
	return s.refused(ctx, "alice", "job-with-principal.yaml",
		`admission webhook "job.mutate.lanyard.dev" denied the request`, "spec.template.spec.containers[0].env[0].name", "NMP_PRINCIPAL")
}

// outage stops the webhook and shows what that does to a managed namespace and to any other one.
func outage(ctx context.Context, s *stage) error {
	s.say("# the webhook's process is stopped")
	if err := s.in.Webhook().Stop(ctx); err != nil {
		return err
	}
	if err := s.refused(ctx, "alice", "job-with-principal.yaml", `failed calling webhook "job.mutate.lanyard.dev"`); err != nil {
		return err
	}
	if err := s.accepted(ctx, "alice", "bystander.yaml"); err != nil {
		return err
	}
	return s.show(ctx, "pod/bystander", "elsewhere",
		wanted{"volumes", `{.spec.volumes}`, ""},
		wanted{"variables", `{range .spec.containers[*].env[*]}{.name}={.value}{end}`, "NMP_PRINCIPAL=not-a-managed-namespace"},
		wanted{"annotations and labels", `{.metadata.annotations}{.metadata.labels}`, ""},
	)
}

// policies deletes the webhook's configurations and shows that the API server goes on refusing by itself.
func policies(ctx context.Context, s *stage) error {
	s.say("admin$ kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration lanyard")
	if err := s.in.RemoveWebhooks(ctx); err != nil {
		return err
	}
	if err := s.refused(ctx, "alice", "job-with-principal-stamped.yaml",
		"ValidatingAdmissionPolicy 'lanyard-reserved-names'", "spec.template.spec.containers[trainer].env[NMP_PRINCIPAL]"); err != nil {
		return err
	}
	s.say("# a job that nobody stamped is not anybody's, and waits for the webhook to come back:")
	if err := s.refused(ctx, "alice", "job-unstamped.yaml", "ValidatingAdmissionPolicy 'lanyard-creator-required'"); err != nil {
		return err
	}
	s.say("# the webhook and its configurations come back")
	if err := s.in.Webhook().Start(ctx); err != nil {
		return err
	}
	if err := s.in.ApplyWebhooks(ctx); err != nil {
		return err
	}
	return s.accepted(ctx, "alice", "job-unstamped.yaml")
}
