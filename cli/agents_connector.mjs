// AgentConnector v1.0 over the /agents routes of a hermes-connector, for a skill runtime. It needs nothing but fetch and
// Web Crypto: Node 20 and newer, Deno, Bun. `hermes-connector agents connector` prints this file.
//
//   import {HermesAgentConnector} from './hermes-agents.mjs';
//   await registry.registerAgentConnector('primary', HermesAgentConnector.fromEnv());
//
// fromEnv reads the lines that `hermes-connector agents add` prints.

// DeliveryFailedError is thrown when something was not done: an unknown agent, a credential that does not count, a body
// that is not taken, a server that does not answer.
export class DeliveryFailedError extends Error {
  // http_status is null when no answer came. Then it may be done or not; the same dispatch_id again is safe.
  constructor(agent_id, http_status, message) {
    super(message);
    this.name = 'DeliveryFailedError';
    this.agent_id = agent_id;
    this.http_status = http_status;
  }
}

// TimeoutError is thrown by request_response when the agent said nothing in time. A later reply is kept under /replies.
export class TimeoutError extends Error {
  constructor(message) {
    super(message);
    this.name = 'TimeoutError';
  }
}

// slack is how long, in ms, the server may take on top of what it was asked to wait.
const slack = 10_000;
// wakeWait is how long, in ms, the server waits for an agent that is woken, where opts.wait_ms does not say it.
const wakeWait = 3_000;

export class HermesAgentConnector {
  static staticCapabilities() {
    return {
      connector_type: 'agent_connector',
      implementation: 'HermesAgentConnector',
      contract_version: '1.0.0',
      features: {deliver: true, wake: true, list_agents: true, agent_status: true, health_check: true, request_response: true},
    };
  }

  // env has HTTP_WEBHOOK_AGENTS, HTTP_WEBHOOK_AUTH, and HTTP_WEBHOOK_HMAC_SECRET if the program signs.
  static fromEnv(env = globalThis.process?.env ?? {}) {
    const [first] = Object.values(JSON.parse(env.HTTP_WEBHOOK_AGENTS || '{}'));
    if (!first?.url || !env.HTTP_WEBHOOK_AUTH) {
      throw new Error('HTTP_WEBHOOK_AGENTS or HTTP_WEBHOOK_AUTH is not set: hermes-connector agents add prints them');
    }
    return new HermesAgentConnector({
      url: first.url.replace(/\/deliver$/, ''),
      authorization: env.HTTP_WEBHOOK_AUTH,
      hmac_secret: env.HTTP_WEBHOOK_HMAC_SECRET || undefined,
    });
  }

  #url;
  #authorization;
  #secret;

  // url ends in /agents; authorization is "Bearer TOKEN".
  constructor({url, authorization, hmac_secret}) {
    this.#url = url.replace(/\/$/, '');
    this.#authorization = authorization;
    this.#secret = hmac_secret;
  }

  async list_agents() {
    return this.#get('');
  }

  async agent_status(agent_id) {
    return (await this.#get('/status/' + encodeURIComponent(agent_id), agent_id)).status;
  }

  // deliver answers when the payload is on the server's disk.
  async deliver(agent_id, payload) {
    return this.#post('deliver', agent_id, payload);
  }

  // wake says woken only if the agent's gateway acknowledged the context in time. In every other case the context waits
  // for it, and warnings say why.
  async wake(agent_id, opts = {}) {
    return this.#post('wake', agent_id, opts, opts.wait_ms ?? wakeWait);
  }

  // health_check is whether messages can be stored, and the token counts.
  async health_check() {
    try {
      return (await this.#get('/health')).ok === true && Array.isArray(await this.list_agents());
    } catch {
      return false;
    }
  }

  // request_response needs payload.meta.correlation_id.
  async request_response(agent_id, payload, {timeout_ms}) {
    try {
      return await this.#post('exchange', agent_id, {...payload, timeout_ms}, timeout_ms);
    } catch (e) {
      throw e.http_status === 504 ? new TimeoutError(`${agent_id} did not answer within ${timeout_ms} ms`) : e;
    }
  }

  #get(path, agent_id) {
    return this.#fetch(path, agent_id, {headers: {Authorization: this.#authorization}}, slack);
  }

  async #post(route, agent_id, members, wait = 0) {
    const body = new TextEncoder().encode(JSON.stringify({...members, agent_id}));
    const headers = {Authorization: this.#authorization, 'Content-Type': 'application/json'};
    if (this.#secret) {
      headers['X-Signature'] = await signature(this.#secret, body);
    }
    return this.#fetch(`/${route}/${encodeURIComponent(agent_id)}`, agent_id, {method: 'POST', headers, body}, wait + slack);
  }

  async #fetch(path, agent_id, init, within) {
    let status = null;
    try {
      const response = await fetch(this.#url + path, {...init, redirect: 'error', signal: AbortSignal.timeout(within)});
      status = response.status;
      const answer = await response.json();
      if (response.ok) {
        return answer;
      }
      throw new Error(answer.error);
    } catch (e) {
      throw new DeliveryFailedError(agent_id, status, `${agent_id ?? 'the server'}: ${e.cause?.message ?? e.message}`);
    }
  }
}

// signature is the HMAC-SHA256 of the bytes that are sent, as the server wants it.
async function signature(secret, body) {
  const algorithm = {name: 'HMAC', hash: 'SHA-256'};
  const key = await crypto.subtle.importKey('raw', new TextEncoder().encode(secret), algorithm, false, ['sign']);
  const sum = new Uint8Array(await crypto.subtle.sign('HMAC', key, body));
  return 'sha256=' + Array.from(sum, b => b.toString(16).padStart(2, '0')).join('');
}
