// Package client is what a publisher of health events imports.
//
//	p, err := client.NewPublisher(client.Options{Target: "unix:///var/run/nvsentinel.sock", TokenFile: os.Getenv("PLATFORM_CONNECTOR_TOKEN_PATH")})
//	defer p.Close(ctx)
//	err = p.Publish(ctx, &healtheventv1.HealthEvents{Version: 1, Events: events})
//
// A Publisher sends batches in order, one at a time, and tries again what may succeed later, under the same idempotency key.
// Programs with a gRPC connection of their own take PublisherCredentials and SocketCredentials alone.
//
// A token never appears in an error, and leaves this process only over TLS or over a Unix socket whose server has been
// looked at.
package client
