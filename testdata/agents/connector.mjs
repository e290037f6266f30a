// What a skill runtime asks of an AgentConnector, of the module that the argument names. Agent "home" repeats what it is told,
// "kids" has no gateway. The environment has what `agents add` printed, and the server's address.
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';

const {DeliveryFailedError, HermesAgentConnector, TimeoutError} = await import(pathToFileURL(process.argv[2]));
const connector = HermesAgentConnector.fromEnv();
const url = process.env.SERVER + '/agents';
const failed = status => e => e instanceof DeliveryFailedError && e.http_status === status;
const payload = (dispatch_id, more) => ({
  kind: 'augment', content: 'It rains.',
  meta: {dispatch_id, sent_at: Date.now(), origin: {skill_name: 'morning', trigger_kind: 'cron'}, ...more},
});

// health_check: where no server is, and with another's token, it is false.
assert.equal(await connector.health_check(), true);
assert.equal(await new HermesAgentConnector({url: 'http://127.0.0.1:1/agents', authorization: 'Bearer x'}).health_check(), false);
const stranger = new HermesAgentConnector({url, authorization: 'Bearer x'});
assert.equal(await stranger.health_check(), false);
await assert.rejects(stranger.deliver('home', payload('d0')), failed(401));

// list_agents
const capabilities = ['deliver', 'wake', 'augment', 'template'];
const agents = await connector.list_agents();
assert.deepEqual(agents.map(a => a.agent_id).sort(), ['home', 'kids']);
agents.forEach(a => assert.deepEqual(a.capabilities, capabilities));

// request_response: it waits until the gateway is there.
const answer = await connector.request_response('home', payload('asked', {correlation_id: 'q1'}), {timeout_ms: 300_000});
assert.equal(answer.correlation_id, 'q1');
assert.equal(answer.agent_id, 'home');
assert.equal(typeof answer.sent_at, 'number');
assert.match(answer.content, /^echo: \[context from skill morning \(cron\), sent [^\]]*\]\n\nIt rains\.$/);
await assert.rejects(connector.request_response('kids', payload('asked', {correlation_id: 'q2'}), {timeout_ms: 1}), TimeoutError);
await assert.rejects(connector.request_response('home', payload('alone'), {timeout_ms: 1}), failed(400));

// deliver: again is once, a playbook, a session, and an agent that is not there.
const told = payload('told');
const receipt = await connector.deliver('home', told);
assert.equal(typeof receipt.delivered_at, 'number');
assert.equal(receipt.session_id, 'main');
assert.equal(receipt.delivery_skipped, undefined);
assert.deepEqual(await connector.deliver('home', told), receipt);
const {content, ...rest} = payload('to do');
assert.equal((await connector.deliver('home@desk', {...rest, kind: 'template', prompt: content})).session_id, 'desk');
const waits = await connector.deliver('kids', payload('told'));
assert.equal(waits.delivery_skipped, true);
assert.deepEqual(waits.warnings, ['waits: kids is asleep']);
await assert.rejects(connector.deliver('attic', payload('told')), failed(404));
await assert.rejects(connector.deliver('home', {...payload('other'), kind: 'binary'}), failed(422));

// wake: woken is said of what was acknowledged.
const woken = await connector.wake('home', {context: 'Look at this.', session_id: 'kitchen', wait_ms: 20_000});
assert.equal(woken.woken, true);
assert.equal(woken.session_id, 'kitchen');
assert.equal(typeof woken.woken_at, 'number');
const asleep = await connector.wake('kids@kitchen');
assert.equal(asleep.woken, false);
assert.equal(asleep.session_id, 'kitchen');
assert.deepEqual(asleep.warnings, ['no wake URL']);
const later = await connector.wake('home', {context: 'Later.', when: Date.now() + 86_400_000});
assert.deepEqual([later.woken, later.warnings], [false, ['scheduled']]);
await assert.rejects(connector.wake('attic'), failed(404));

// agent_status
assert.equal(await connector.agent_status('home'), 'active');
assert.equal(await connector.agent_status('kids'), 'unknown');
await assert.rejects(connector.agent_status('attic'), failed(404));

// A program that signs is refused without its signature.
if (process.env.HTTP_WEBHOOK_HMAC_SECRET) {
  const unsigned = new HermesAgentConnector({url, authorization: process.env.HTTP_WEBHOOK_AUTH});
  await assert.rejects(unsigned.deliver('home', payload('unsigned')), failed(401));
}
