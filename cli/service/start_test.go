package service

import "testing"

// TestStart: nobody is sent to a unit that is not there, nor to one of another configuration.
func TestStart(t *testing.T) {
	const system, user = "sudo systemctl start hermes-connector", "systemctl --user start hermes-connector"
	own := "[Service]\nExecStart=/home/ann/hc serve --config /home/ann/connector.toml\nExecReload=/bin/true\n"
	for name, tc := range map[string]struct {
		config       string
		runs, system bool
		own, want    string
	}{
		"the package's":                  {Config + "/connector.toml", true, true, "", system},
		"no unit":                        {Config + "/connector.toml", true, false, "", ""},
		"no systemd":                     {Config + "/connector.toml", false, true, own, ""},
		"another configuration":          {"/srv/connector.toml", true, true, own, ""},
		"the user's own":                 {"/home/ann/connector.toml", true, true, own, user},
		"the user's, of another file":    {"/home/ann/connector.tom", true, false, own, ""},
		"no configuration, and one unit": {"", true, true, own, ""},
	} {
		if got := start(tc.config, tc.runs, tc.system, []byte(tc.own)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
