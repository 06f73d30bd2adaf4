// Package config reads strict YAML files. A program asks a Section for the keys it knows; everything that is wrong is
// gathered and reported at once, each fault with its key path, its line and what to write instead. Absent, null and empty
// are three different statements: absent takes the documented default, null is always refused (helm deletes keys that are
// null, so a null that reaches a file is a mistake), and empty means what it says.
//
//	root := config.Parse(raw)
//	mode := root.Section("admission").Enum("mode", "enforce", "enforce", "audit")
//	if err := root.Err(); err != nil { ... }
//
// Err also refuses keys that nobody asked for, naming the nearest key that somebody did.
package config
