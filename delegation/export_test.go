package delegation

// EncodeNames shows the encoding that names are hashed from.
func EncodeNames(words ...string) []byte { return appendArray(nil, words) }
