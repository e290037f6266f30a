package finding

import (
	"regexp"
	"testing"
)

func TestKinds(t *testing.T) { // invariant 1
	form, seen := regexp.MustCompile(`^HC[1-5][0-9]{2}$`), make(map[string]bool)
	for _, k := range All() {
		if !form.MatchString(k.Code) || seen[k.Code] || k.Why == "" || rank(k.Severity) < 0 {
			t.Errorf("%+v: want an unused code of the form HCnnn, a severity and a reason", *k)
		}
		seen[k.Code] = true
	}
}

func TestSort(t *testing.T) {
	all := []Finding{{Code: "HC201", Severity: Warning}, {Code: "HC102", Severity: Unchecked}, {Code: "HC301", Severity: Fault}, {Code: "HC101", Severity: Warning}}
	Sort(all)
	for i, want := range []string{"HC301", "HC101", "HC201", "HC102"} {
		if all[i].Code != want {
			t.Errorf("place %d: %s, want %s", i, all[i].Code, want)
		}
	}
}
