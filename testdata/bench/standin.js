// A stand-in for how such a connector is commonly put together: Node, ws, and a Redis Stream with
// appendfsync always. It polls a Bot API, stores each message before it confirms it, and sends the
// messages one at a time to the gateway that said hello last. It keeps nobody out and remembers nothing.
//
//     node standin.js API-URL REDIS-PORT
'use strict'
const http = require('http')
const net = require('net')
const { WebSocketServer } = require('ws')

const [api, redisPort] = process.argv.slice(2)
const agent = new http.Agent({ keepAlive: true })

// Redis is a connection that answers in order.
class Redis {
  constructor () {
    this.waiting = []
    this.unread = Buffer.alloc(0)
    this.socket = net.connect(Number(redisPort), '127.0.0.1').setNoDelay()
    this.socket.on('data', (data) => {
      this.unread = this.unread.length ? Buffer.concat([this.unread, data]) : data
      for (;;) {
        this.at = 0
        const value = this.parse()
        if (value === undefined) return
        this.unread = this.unread.subarray(this.at)
        const { resolve, reject } = this.waiting.shift()
        value instanceof Error ? reject(value) : resolve(value)
      }
    })
  }

  send (...words) {
    this.socket.write(`*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(w)}\r\n${w}\r\n`).join(''))
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }))
  }

  // parse takes one value; undefined: it is not all there yet.
  parse () {
    const end = this.unread.indexOf('\r\n', this.at)
    if (end < 0) return undefined
    const kind = this.unread[this.at]
    const head = this.unread.toString('utf8', this.at + 1, end)
    this.at = end + 2
    if (kind === 45) return new Error(head) // '-'
    if (kind === 36) { // '$'
      const size = Number(head)
      if (size < 0) return null
      if (this.unread.length < this.at + size + 2) return undefined
      this.at += size + 2
      return this.unread.toString('utf8', this.at - size - 2, this.at - 2)
    }
    if (kind !== 42) return head // '*'
    const list = []
    for (let n = Number(head); n > 0; n--) {
      const value = this.parse()
      if (value === undefined) return undefined
      list.push(value)
    }
    return list
  }
}

function getUpdates (offset) {
  return new Promise((resolve, reject) => {
    http.get(`${api}/bot1:x/getUpdates?timeout=30&offset=${offset}`, { agent }, (res) => {
      const parts = []
      res.on('data', (d) => parts.push(d))
      res.on('end', () => resolve(JSON.parse(Buffer.concat(parts)).result))
    }).on('error', reject)
  })
}

// normalise is what a gateway reads of a message.
function normalise (m) {
  return {
    text: m.text,
    message_type: 'text',
    message_id: String(m.message_id),
    source: {
      platform: 'telegram', chat_id: String(m.chat.id), chat_type: 'dm', chat_name: m.chat.first_name, user_id: String(m.from.id),
      user_name: m.from.first_name, thread_id: null, chat_topic: null, message_id: String(m.message_id)
    }
  }
}

async function poll (redis) {
  for (let offset = 0; ;) {
    for (const u of await getUpdates(offset)) {
      await redis.send('XADD', 'home', '*', 'event', JSON.stringify(normalise(u.message)))
      offset = u.update_id + 1
    }
  }
}

let gateway // the socket that said hello last
let arrived = () => {} // called when there is one
let acknowledged = () => {}

async function deliver (redis, reader) {
  await redis.send('XGROUP', 'CREATE', 'home', 'gateways', '0', 'MKSTREAM').catch(() => {}) // it is there from the start before
  for (;;) {
    const read = await reader.send('XREADGROUP', 'GROUP', 'gateways', 'one', 'COUNT', '1', 'BLOCK', '0', 'STREAMS', 'home', '>')
    const [id, fields] = read[0][1][0]
    if (!gateway) await new Promise((resolve) => { arrived = resolve })
    const done = new Promise((resolve) => { acknowledged = (b) => b === id && resolve() })
    gateway.send(JSON.stringify({ type: 'inbound', event: JSON.parse(fields[1]), bufferId: id }) + '\n')
    await done
    await Promise.all([redis.send('XACK', 'home', 'gateways', id), redis.send('XDEL', 'home', id)])
  }
}

const server = new WebSocketServer({ host: '127.0.0.1', port: 0 })
server.on('listening', () => console.log(`listening on http://127.0.0.1:${server.address().port}`))
server.on('connection', (socket) => socket.on('message', (data) => {
  const frame = JSON.parse(data)
  if (frame.type === 'hello') {
    socket.send('{"type":"descriptor","descriptor":{"contract_version":1,"platform":"telegram","label":"Telegram"}}\n')
    gateway = socket
    arrived()
  } else if (frame.type === 'inbound_ack') {
    acknowledged(frame.bufferId)
  }
}))
poll(new Redis())
deliver(new Redis(), new Redis())
