// Package client is what publishers of health events and managed jobs import.
//
// A publisher reports to a connector:
//
//	p, err := client.NewPublisher(client.Options{Target: "unix:///var/run/nvsentinel.sock", TokenFile: os.Getenv("PLATFORM_CONNECTOR_TOKEN_PATH")})
//	defer p.Close(ctx)
//	err = p.Publish(ctx, &healtheventv1.HealthEvents{Version: 1, Events: events})
//
// It sends batches in order, one at a time, and tries again what may succeed later, under the same idempotency key. Programs with a gRPC
// connection of their own take PublisherCredentials and SocketCredentials alone.
//
// A managed job calls the platform's APIs for whoever submitted it:
//
//	w, err := client.WorkloadFromEnv() // ErrNoIdentity: this is no managed job
//	defer w.Close()
//	rt, err := w.RoundTripper(nil, "https://api.example:8443")
//	api := &http.Client{Transport: rt}
//
// A Workload exchanges the token file that the platform mounted for access tokens, and is an oauth2.TokenSource too; PerRPCCredentials is
// for gRPC. Services that such jobs call import package principal below.
//
// A token never appears in an error, and leaves this process only over TLS, over a Unix socket whose server has been looked at, or to
// this machine's loopback address.
package client
