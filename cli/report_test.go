package cli

import (
	"bytes"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay/finding"
	"github.com/hermes-connector/hermes-connector/relay/manage"
)

// taint writes a word into every string below v, and makes lists and pointers to hold it.
func taint(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("hunter2")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		taint(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		taint(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				taint(v.Field(i))
			}
		}
	default: // numbers, times and the counters, whose names are a closed set
	}
}

// TestTheReportNamesNobody: whatever a status says in words of others is not in the report, also what is added to it later.
func TestTheReportNamesNobody(t *testing.T) {
	var st manage.Status
	taint(reflect.ValueOf(&st).Elem())
	st.Version, st.Running, st.Counters = "v1", true, map[string]uint64{"ack": 3, "takeover": 0}
	st.Bots[0].Platform, st.Bots[0].State = "telegram", platforms.Degraded
	st.Instances[0].State, st.Instances[0].Warning = manage.Away, "copied_credential"
	st.Findings[0].Code, st.Findings[0].Severity, st.Findings[0].Why = "HC101", finding.Fault, "Nobody hears it."
	st.Instances = append(st.Instances, manage.InstanceStatus{ID: "attic", Tenant: "hunter2"}, manage.InstanceStatus{ID: "kids", Tenant: "family"})
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		r := nameless(st)
		if err := (&app{console: console{stdout: &out}}).print(asJSON, r, func(w io.Writer) { tellReport(w, r, time.Now()) }); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		for _, secret := range []string{"hunter2", "attic", "kids", "family"} {
			if strings.Contains(got, secret) {
				t.Errorf("as JSON %t, it says %s:\n%s", asJSON, secret, got)
			}
		}
		for _, want := range []string{"v1", "go1", "telegram", "degraded", "gateway-3", "tenant-2", "HC101", "Nobody hears it.", "ack"} {
			if !strings.Contains(got, want) {
				t.Errorf("as JSON %t, it does not say %s:\n%s", asJSON, want, got)
			}
		}
		if !asJSON && (!strings.Contains(got, "entries that gateways acknowledged") || strings.Contains(got, "takeover")) {
			t.Errorf("want what was counted, and nothing that was not:\n%s", got)
		}
	}
}
