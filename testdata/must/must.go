// Package must ends a test at an error in one of its preparations, about which the test itself says nothing.
package must

// Failer is the part of a test that Succeed needs: a *testing.T has it, and so has a test of package rapid.
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
