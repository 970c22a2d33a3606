package memra

// RequestError is what is wrong with a request: this model cannot serve it as it is, and nothing of it was computed. Other errors of
// Generate are ctx's, the model's or the device's.
type RequestError struct {
	Err     error
	TooLong bool // it has more tokens than the context has room for
}

func (e *RequestError) Error() string { return e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }
