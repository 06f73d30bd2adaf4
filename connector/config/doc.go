// Package config reads what the connector is started with: config.json, the file that the seed defines and that other
// tools read too, and the settings file, which is Lanyard's own.
//
// config.json holds who may name which node, so that nothing in it is guessed: what must be given has no default, null is
// never a value, and all faults are reported at once, each naming its key (seed: Authentication Configuration). The settings
// file is strict YAML in which every key may be absent.
//
//	c, err := config.Load(config.Process{Role: nodebinding.Socket, NodeName: os.Getenv("NODE_NAME")}, configPath, settingsPath)
//
// Neither file holds a secret: tokens and data source names are named by file. A Config can be logged as it is.
package config
