// Package proxy tries what Traefik reads, as far as that goes without Traefik, which Debian does not have: the file is the
// YAML that it takes, and its router leads to its service. nginx and Caddy are run by a test of cli.
package proxy

import (
	"bytes"
	"slices"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/hermes-connector/hermes-connector/cli/proxy"
)

func TestTraefik(t *testing.T) {
	// These fields are some of those of its dynamic configuration; a name that is not among them is a fault.
	var file struct {
		HTTP struct {
			Routers map[string]struct {
				Rule        string
				EntryPoints []string `yaml:"entryPoints"`
				Service     string
				TLS         struct {
					CertResolver string `yaml:"certResolver"`
				}
			}
			Services map[string]struct {
				LoadBalancer struct {
					PassHostHeader *bool `yaml:"passHostHeader"`
					Servers        []struct{ URL string }
				} `yaml:"loadBalancer"`
			}
		}
	}
	d := yaml.NewDecoder(bytes.NewReader([]byte(proxy.For("traefik.yaml", "hermes.example.org", "127.0.0.1:9000"))))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	router := file.HTTP.Routers["relay"]
	if router.Rule != "Host(`hermes.example.org`)" || !slices.Equal(router.EntryPoints, []string{"websecure"}) || router.TLS.CertResolver == "" {
		t.Errorf("the router is %+v", router)
	}
	balancer := file.HTTP.Services[router.Service].LoadBalancer
	if len(balancer.Servers) != 1 || balancer.Servers[0].URL != "http://127.0.0.1:9000" {
		t.Errorf("the router's service %q is %+v", router.Service, balancer)
	}
	if balancer.PassHostHeader != nil {
		t.Error("what it hands on as Host is not the host that was dialled")
	}
}
