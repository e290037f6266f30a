package mcp

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-connector/hermes-connector/platforms/platformtest"
)

// throughAll is a client of MCP's makers, which goes through all tools. connect makes the client; it counts what is not a request's
// answer.
const throughAll = `
	const {pathToFileURL} = require('url');
	const at = (...parts) => import(pathToFileURL(require('path').join(process.argv[1], ...parts)));
	const [, command, env] = process.argv.slice(1);
	(async () => {
		const pushes = [], permissions = [], progress = [], out = {};
		const {client, transport, generic} = await connect(at, command, {...process.env, MCP_TEST_SERVER: env});
		client.fallbackNotificationHandler = async n => {
			if (n.method === 'notifications/claude/channel') pushes.push(n.params);
			if (n.method === 'notifications/claude/channel/permission') permissions.push(n.params);
		};
		client.onerror = e => { out.error = String(e); };
		await client.connect(transport);
		out.instructions = client.getInstructions();
		out.capabilities = client.getServerCapabilities();
		out.tools = (await client.listTools()).tools.map(t => t.name).sort();
		const call = async (name, args, options) => {
			const r = generic ? await client.callTool({name, arguments: args}, undefined, options) : await client.callTool({name, arguments: args}, options);
			return r.structuredContent ?? {isError: r.isError, text: r.content[0].text};
		};
		out.event = (await call('events_wait', {})).event;
		const {sessionKey, messageId, cursor} = out.event;
		out.conversations = (await call('conversations_list', {includeLastMessage: true})).conversations;
		out.conversation = (await call('conversation_get', {session_key: sessionKey})).conversation;
		out.messages = (await call('messages_read', {session_key: sessionKey})).messages;
		out.attachments = (await call('attachments_fetch', {session_key: sessionKey, message_id: messageId})).attachments;
		out.poll = await call('events_poll', {});
		for (let n = 0; n < 6000 && pushes.length === 0; n++) await new Promise(done => setTimeout(done, 10)); // what is confirmed is pushed no more
		out.sent = (await call('messages_send', {session_key: sessionKey, text: 'hi', cursor, key: 'k' + cursor})).result;
		out.after = (await call('events_poll', {after_cursor: cursor})).events.length;
		out.channels = (await call('channels_list', {})).channels;
		out.nothing = await call('events_wait', {timeout_ms: 50});
		out.unknown = await call('nope', {}).catch(e => e.code);
		out.wrong = await call('events_poll', {limit: 'x'});
		const stop = new AbortController();
		const waiting = call('events_wait', {timeout_ms: 60000}, {signal: stop.signal, onprogress: p => progress.push(p)});
		setTimeout(() => stop.abort('enough'), 100);
		out.aborted = await waiting.then(() => false, () => true);
		await transport.send({jsonrpc: '2.0', method: 'notifications/claude/channel/permission_request',
			params: {request_id: 'abcde', tool_name: 'Bash', description: 'd', input_preview: 'ls'}});
		while ((out.open = (await call('permissions_list_open', {})).approvals).length === 0);
		out.respond = (await call('permissions_respond', {kind: 'exec', id: 'abcde', decision: 'deny'})).result;
		out.pushes = pushes; out.permissions = permissions;
		await client.close();
		console.log(JSON.stringify(out));
	})().catch(e => { console.error(e); process.exit(1); });`

// connects are how the clients are made, of each era.
var connects = map[string]struct{ pkg, connect string }{
	"sdk": {"sdk", `async function connect(at, command, env) {
		const {Client} = await at('dist', 'esm', 'client', 'index.js'), {StdioClientTransport} = await at('dist', 'esm', 'client', 'stdio.js');
		return {client: new Client({name: 't', version: '1'}), transport: new StdioClientTransport({command, args: [], env}), generic: true};
	}`},
	"client, with a handshake": {"client", `async function connect(at, command, env) {
		const {Client} = await at('dist', 'index.mjs'), {StdioClientTransport} = await at('dist', 'stdio.mjs');
		return {client: new Client({name: 't', version: '1'}), transport: new StdioClientTransport({command, args: [], env})};
	}`},
	"client, without one": {"client", `async function connect(at, command, env) {
		const {Client} = await at('dist', 'index.mjs'), {StdioClientTransport} = await at('dist', 'stdio.mjs');
		return {client: new Client({name: 't', version: '1'}, {versionNegotiation: {mode: {pin: '2026-07-28'}}}),
			transport: new StdioClientTransport({command, args: [], env})};
	}`},
}

// TestThirdPartyClients: clients of MCP's makers go through every tool, abort, and get the notifications that are not the
// protocol's.
func TestThirdPartyClients(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range connects {
		t.Run(name, func(t *testing.T) {
			dir := platformtest.Partner(t, "@modelcontextprotocol/"+tc.pkg)
			c := newConnector(t)
			c.say(t.Context(), dm(1, "7", "hello"))
			cmd := exec.CommandContext(t.Context(), "node", "-e", tc.connect+throughAll, dir, exe, spoolDir(t)+" "+c.url)
			var trouble bytes.Buffer
			cmd.Stderr = &trouble
			raw, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, trouble.String())
			}
			var out struct {
				Tools                               []string
				Instructions, Error                 string
				Capabilities                        struct{ Experimental map[string]any }
				Event, Conversation                 object
				Conversations, Messages, Channels   []object
				Attachments, Open                   []object
				Poll, Nothing, Sent, Wrong, Respond object
				After, Unknown                      int
				Aborted                             bool
				Pushes, Permissions                 []object
			}
			if err := json.Unmarshal(raw, &out); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out.Tools, toolNames) || out.Instructions != instructions || out.Capabilities.Experimental[claudePermission] == nil || out.Error != "" {
				t.Errorf("tools %v, capabilities %v, error %q, instructions %q", out.Tools, out.Capabilities, out.Error, out.Instructions)
			}
			if out.Event["text"] != "hello" || out.Event["trust"] != untrusted || len(out.Conversations) != 1 || out.Conversations[0]["lastMessagePreview"] != "hello" ||
				out.Conversation["sessionKey"] != dmKey+"7" || len(out.Messages) != 1 || len(out.Channels) != 1 || out.Channels[0]["target"] != "telegram:7" {
				t.Errorf("it reads %s", raw)
			}
			if out.Sent["status"] != "sent" || out.After != 0 || !out.Aborted || out.Unknown != -32602 || out.Wrong["isError"] != true || len(out.Open) != 1 || out.Respond["decision"] != deny {
				t.Errorf("it does %s", raw)
			}
			if len(out.Pushes) != 1 || out.Pushes[0]["content"] != "hello" || len(out.Permissions) != 1 || out.Permissions[0]["behavior"] != deny {
				t.Errorf("it is told %v and %v", out.Pushes, out.Permissions)
			}
		})
	}
}

// TestThirdPartyInspector: the inspector's command line lists the tools and calls one.
func TestThirdPartyInspector(t *testing.T) {
	dir := platformtest.Partner(t, "@modelcontextprotocol/inspector")
	c := newConnector(t)
	c.say(t.Context(), dm(1, "7", "hello"))
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := spoolDir(t)
	for _, tc := range []struct{ args, want string }{
		{"--method tools/list", `"attachments_fetch"`},
		{"--method tools/call --tool-name events_wait --tool-arg timeout_ms=60000", `"text": "hello"`},
	} {
		args := []string{filepath.Join(dir, "clients", "cli", "build", "index.js"), exe, "-e", asServer + "=" + state + " " + c.url}
		cmd := exec.CommandContext(t.Context(), "node", append(args, strings.Fields(tc.args)...)...)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tc.want) {
			t.Errorf("%s: %v, want %s in\n%s", tc.args, err, tc.want, out)
		}
	}
}
