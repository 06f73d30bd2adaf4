package nodebinding

// Code is a gRPC status code, moved up by one so that the zero value is not OK.
type Code uint8

// The codes, in gRPC's order.
const (
	// Undecided is the zero Code; it is answered as Internal.
	Undecided Code = iota
	// OK and the following mean what they mean in gRPC.
	OK
	Canceled
	Unknown
	InvalidArgument
	DeadlineExceeded
	NotFound
	AlreadyExists
	PermissionDenied
	ResourceExhausted
	FailedPrecondition
	Aborted
	OutOfRange
	Unimplemented
	Internal
	Unavailable
	DataLoss
	Unauthenticated
)

// GRPC is the code's number on the wire. What is undecided or no code at all is Internal, never OK.
func (c Code) GRPC() uint32 {
	if c == Undecided || c > Unauthenticated {
		c = Internal
	}
	return uint32(c) - 1
}

// FromGRPC returns the code with gRPC's number n. A number that gRPC does not know is Unknown.
func FromGRPC(n uint32) Code {
	if n > Unauthenticated.GRPC() {
		return Unknown
	}
	return Code(n + 1)
}

// String is the code as gRPC writes it in prose.
func (c Code) String() string {
	names := [...]string{
		"Undecided", "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
		"PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented", "Internal",
		"Unavailable", "DataLoss", "Unauthenticated",
	}
	if int(c) >= len(names) {
		return "no code"
	}
	return names[c]
}
