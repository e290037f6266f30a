package words

import "testing"

// TestActions: the audit list calls things as the commands do, and what no command does as it is stored.
func TestActions(t *testing.T) {
	for name, want := range map[string]string{
		"bind": "link", "unbind": "unlink", "link": "link", "link-code": "link code", "dm-default": "people direct",
		"principal": "gateway access", "policy": "gateway policy", "claim": "chat claim", "web-logout": "web logout",
		"enroll-token": "enroll --token", "provision": "provision",
	} {
		if got := Action(name); got != want {
			t.Errorf("%s is called %q, want %q", name, got, want)
		}
	}
}
