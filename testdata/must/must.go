// Package must ends a test at an error of which it says nothing: what led to what the test is about did not succeed.
package must

// Failer is what a test is to must: a *testing.T, or one of rapid's.
type Failer interface {
	Helper()
	Fatal(args ...any)
}

// Succeed fails t at once when one of errs is an error.
func Succeed(t Failer, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
