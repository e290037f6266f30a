// Package long tells the two forms of the tests apart. `go test ./...` is the quick one. `go test -tags long ./...` takes
// longer and looks further: more worlds, longer histories, more kills. Both ask for the same; only the amounts differ.
//
// It is a build tag, since every package of the module takes one: a flag would have to be defined in each of them.
package long

// Pick returns quick, or long in the long form.
func Pick[T any](quick, long T) T {
	if tagged {
		return long
	}
	return quick
}
