package discord

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-connector/hermes-connector/platforms"
	"github.com/hermes-connector/hermes-connector/relay"
	relaywire "github.com/hermes-connector/hermes-connector/relay/wire"
)

// Of a body that gateways of every age were seen to read: as it leaves, and in a frame.
const (
	readByAll = `{"channel":{"parent_id":"290926798626357998","type":0},"channel_id":"290926798626357999","data":{"name":"model","options":[{"name":"set","options":[{"name":"name","type":3,"value":"gpt"}],"type":1}]},"guild_id":"290926798626357250","id":"1180000000000000001","member":{"nick":null,"user":{"global_name":"Ann","id":"53908232506183680","username":"ann"}},"type":2}`
	inFrame   = `eyJjaGFubmVsIjp7InBhcmVudF9pZCI6IjI5MDkyNjc5ODYyNjM1Nzk5OCIsInR5cGUiOjB9LCJjaGFubmVsX2lkIjoiMjkwOTI2Nzk4NjI2MzU3OTk5IiwiZGF0YSI6eyJuYW1lIjoibW9kZWwiLCJvcHRpb25zIjpbeyJuYW1lIjoic2V0Iiwib3B0aW9ucyI6W3sibmFtZSI6Im5hbWUiLCJ0eXBlIjozLCJ2YWx1ZSI6ImdwdCJ9XSwidHlwZSI6MX1dfSwiZ3VpbGRfaWQiOiIyOTA5MjY3OTg2MjYzNTcyNTAiLCJpZCI6IjExODAwMDAwMDAwMDAwMDAwMDEiLCJtZW1iZXIiOnsibmljayI6bnVsbCwidXNlciI6eyJnbG9iYWxfbmFtZSI6IkFubiIsImlkIjoiNTM5MDgyMzI1MDYxODM2ODAiLCJ1c2VybmFtZSI6ImFubiJ9fSwidHlwZSI6Mn0=`
)

const canaryToken = "CANARY-interaction-token"

// richInteraction is a command as Discord sends it, with far more in it than leaves.
const richInteraction = `{
	"app_permissions":"562949953601536","application_id":"1100000000000000001","attachment_size_limit":10485760,
	"authorizing_integration_owners":{"0":"290926798626357250"},"context":0,"entitlement_sku_ids":[],"entitlements":[{"id":"secret"}],
	"channel":{"flags":0,"guild_id":"290926798626357250","id":"290926798626357999","name":"general","parent_id":"290926798626357998","permissions":"562949953601536","topic":"private","type":0},
	"channel_id":"290926798626357999",
	"data":{"guild_id":"7","id":"8","name":"model","options":[{"focused":true,"name":"set","options":[{"name":"name","secret":{"a":1},"type":3,"value":"gpt"}],"type":1}],
		"resolved":{"users":{"5":{"email":"ann@example.org"}}},"target_id":"9"},
	"guild":{"features":[],"id":"290926798626357250"},"guild_id":"290926798626357250","guild_locale":"en-US","id":"1180000000000000001","locale":"de",
	"member":{"avatar":null,"joined_at":"2020-01-01","nick":null,"permissions":"2248473465835073","roles":["1"],
		"user":{"avatar":"x","discriminator":"0","email":"ann@example.org","global_name":"Ann","id":"53908232506183680","username":"ann"}},
	"token":"` + canaryToken + `","type":2,"version":1}`

func canary() relay.Secret { return relay.NewSecret([]byte(canaryToken)) }

func TestWhatLeavesOfAnInteraction(t *testing.T) {
	body := sanitised([]byte(richInteraction), canary())
	if diff := cmp.Diff(readByAll, string(body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	line, err := relaywire.Encode(relaywire.PassthroughForward{Forward: relay.Forward{Body: body}})
	if err != nil || !bytes.Contains(line, []byte(`"bodyB64":"`+inFrame+`"`)) {
		t.Errorf("frame %s, %v", line, err)
	}
	for name, tc := range map[string]struct{ in, want string }{
		"a press": {
			`{"type":3,"id":"1","message":{"id":"2","content":"which?","author":{"id":"3"}},"data":{"custom_id":"hp1:a:b","component_type":2,"id":4},"user":{"id":"5","username":"u","global_name":null,"bot":false}}`,
			`{"data":{"custom_id":"hp1:a:b"},"id":"1","message":{"id":"2"},"type":3,"user":{"global_name":null,"id":"5","username":"u"}}`},
		"a choice": {
			`{"data":{"custom_id":"c","values":["a",{"b":1},"c"],"type":1}}`,
			`{"data":{"custom_id":"c","type":1,"values":["a","c"]}}`},
		"a form": {
			`{"type":5,"data":{"custom_id":"f","components":[{"type":1,"components":[{"type":4,"custom_id":"x","value":""}]},{"type":18,"id":3,"component":{"type":4,"custom_id":"y","value":"two\nlines"}}]}}`,
			`{"data":{"components":[{"components":[{"custom_id":"x","value":""}]},{"component":{"custom_id":"y","value":"two\nlines"}}],"custom_id":"f"},"type":5}`},
		"members of other kinds":    {`{"id":{"a":1},"type":[2],"data":"x","user":null,"member":[],"channel":{"type":{},"parent_id":null}}`, `{"channel":{"parent_id":null}}`},
		"a scalar for an option":    {`{"data":{"options":[1,{"name":"a","value":[1]},null,{"name":"b","value":true,"options":{}}]}}`, `{"data":{"options":[{"name":"a"},{"name":"b","value":true}]}}`},
		"numbers keep their digits": {`{"data":{"options":[{"name":"n","type":10,"value":12345678901234567890.10}]}}`, `{"data":{"options":[{"name":"n","type":10,"value":12345678901234567890.10}]}}`},
		"words as they are":         {`{"data":{"name":"\u00e4 <b>&\u2603\n"}}`, `{"data":{"name":"ä <b>&☃\n"}}`},
		"no object":                 {`[]`, `{}`},
		"keys in another case":      {`{"ID":"1","Type":2,"Token":"x","dAta":{}}`, `{}`},
		"the token among the words": {`{"data":{"name":"a` + canaryToken + `b","custom_id":"\u0043ANARY-interaction-token","options":[{"value":"CANARY-CANARY-interaction-tokeninteraction-token"}]}}`,
			`{"data":{"custom_id":"","name":"ab","options":[{"value":""}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := string(sanitised([]byte(tc.in), canary())); got != tc.want {
				t.Errorf("%s\nleaves as %s\nwant      %s", tc.in, got, tc.want)
			}
		})
	}
}

// mayLeave are the paths of what leaves, as the reference lists them.
var mayLeave = regexp.MustCompile(`^(\.(id|type|channel_id|guild_id)` +
	`|\.data(\.(name|type|custom_id))?|\.data\.values(\[\])?` +
	`|\.data(\.options(\[\](\.(name|type|value))?)?)+` +
	`|\.data(\.components(\[\](\.component)*(\.(custom_id|value))?)?)+|\.data\.components\[\](\.components\[\]|\.component)*(\.components)?(\.(custom_id|value))?` +
	`|\.message(\.id)?|\.channel(\.(type|parent_id))?|(\.member(\.nick)?)|(\.member)?\.user(\.(id|username|global_name))?)?$`)

// pathsOf are the paths of all that is in v.
func pathsOf(at string, v any) []string {
	out := []string{at}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, pathsOf(at+"."+name, v[name])...)
		}
	case []any:
		for _, x := range v {
			out = append(out, pathsOf(at+"[]", x)...)
		}
	}
	return out
}

// checkLeaves checks what must hold of every body that leaves.
func checkLeaves(t *testing.T, payload, body []byte, token string) {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || bytes.ContainsAny(body, "\r\n") {
		t.Fatalf("%s leaves as %q, %v; want one line of JSON", payload, body, err)
	}
	for _, path := range pathsOf("", v) {
		if !mayLeave.MatchString(path) {
			t.Errorf("%s leaves of %s", path, payload)
		}
	}
	if len(token) >= minToken && bytes.Contains(body, []byte(token)) {
		t.Errorf("the token leaves: %s", body)
	}
	again := sanitised(body, relay.NewSecret([]byte(token)))
	if !bytes.Equal(body, again) { // so the keys are in order
		t.Errorf("%s becomes %s", body, again)
	}
}

func FuzzWhatLeaves(f *testing.F) {
	f.Add([]byte(richInteraction), canaryToken)
	f.Add([]byte(`{"data":{"components":[{"component":{"components":[{"value":"a"}]}}],"options":[{"options":[{"value":1}]}]}}`), "abcdefghijkl")
	f.Add([]byte(`{"type":2,"data":{"name":"abcdefghijklabcdefghijkl"}}`), "abcdefghijkl")
	for _, name := range payloadNames(f) {
		if d := payload(f, name); d.Kind == "INTERACTION_CREATE" {
			f.Add([]byte(d.Data), "CANARY")
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, token string) {
		if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.") != "" {
			t.Skip("no token")
		}
		body := sanitised(payload, relay.NewSecret([]byte(token)))
		if strings.Contains("channel_idguild_idcustom_idparent_idglobal_nameusernamecomponentsoptionsmembermessagevalues", token) {
			token = "" // the keys hold it
		}
		if strings.Trim(token, "0123456789.-eE") == "" {
			token = "" // a number may be it
		}
		checkLeaves(t, payload, body, token)
	})
}

// TestInteractionsGoAsTheSettingSays: with passthrough each event of an interaction has its forward, from the same
// normaliser; by default none has.
func TestInteractionsGoAsTheSettingSays(t *testing.T) {
	for _, setting := range []string{"", interactionsInbound, interactionsPassthrough} {
		t.Run(setting, func(t *testing.T) {
			f := newFakeDiscord()
			f.guilds = []obj{testGuild()}
			f.serve(t)
			values := maps.Clone(quickWaits)
			if setting != "" {
				values[keyInteractions] = setting
			}
			p := f.testBot(t, nil, io.Discard, values)
			in := newTestInbox()
			r := run(t, p, in)
			var d obj
			if err := json.Unmarshal([]byte(richInteraction), &d); err != nil {
				t.Fatal(err)
			}
			for _, delete := range []string{"guild", "guild_id", "member"} { // a direct message
				d[delete] = nil
			}
			d["channel"] = obj{"id": d["channel_id"], "type": 1}
			d["user"] = obj{"id": "4001", "username": "ann"}
			f.await(t, "the session", func() bool { return f.current != nil })
			f.dispatch(kindInteraction, d)
			d = maps.Clone(d)
			d["id"], d["type"], d["data"] = "1180000000000000002", 4, obj{"name": "mod"} // while it is being typed
			f.dispatch(kindInteraction, d)
			f.dispatch(kindMessage, obj{"id": "1180000000000000003", "channel_id": d["channel_id"], "channel_type": 1, "content": "hi", "author": d["user"]})
			in.await(t, "/model set gpt", "hi")
			r.end(t)
			var forwards []relay.Forward
			in.mu.Lock()
			for _, b := range in.batches {
				forwards = append(forwards, b.Forwards...)
			}
			first := in.events[0]
			in.mu.Unlock()
			if setting != interactionsPassthrough {
				if len(forwards) != 0 {
					t.Fatalf("forwards %+v", forwards)
				}
				return
			}
			want := []relay.Forward{{
				Event: first, Method: "POST", Path: "/webhooks/discord/" + testBotID, Headers: [][2]string{{"content-type", "application/json"}},
				Body:  []byte(`{"channel":{"type":1},"channel_id":"290926798626357999","data":{"name":"model","options":[{"name":"set","options":[{"name":"name","type":3,"value":"gpt"}],"type":1}]},"guild_id":null,"id":"1180000000000000001","type":2,"user":{"id":"4001","username":"ann"}}`),
				Until: first.At.Add(15 * time.Minute),
			}}
			if diff := cmp.Diff(want, forwards); diff != "" {
				t.Errorf("forwards (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSettingForInteractions(t *testing.T) {
	for _, word := range []string{"", "Passthrough", "both", "forward"} {
		_, err := open(platforms.Options{Token: relay.NewSecret([]byte(testToken)), Values: map[string]string{keyInteractions: word}})
		if err == nil || !strings.Contains(err.Error(), "interactions") || !strings.Contains(err.Error(), "inbound or passthrough") {
			t.Errorf("%q: %v", word, err)
		}
	}
}
