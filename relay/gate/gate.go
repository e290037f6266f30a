// Package gate decides who may see an event and who may act on a chat. Its functions are pure: facts in, verdict out.
// relay/inbound, relay/outbound and relay/facts gather the facts before; this package imports nothing with which it
// could ask for another fact.
//
// Invariants:
//
//  1. An event is delivered to an instance exactly when it is authorised, visible and relevant there.
//  2. An unknown fact counts as no: taking away a fact that speaks for a delivery, or adding one that speaks against
//     it, never turns a drop into a delivery. The same holds for acting.
//  3. Of an author's own instances, at most one receives an event.
//  4. An owner's own message is authorised and visible for the instance that receives it, whatever
//     the policies say.
//  5. Every verdict has exactly one reason of the enumeration. A name at the beginning of an event takes the event from
//     other instances, and gives it to nobody: the named instance is judged by the event without the name.
//  6. An approval is given and refused by people linked to the instance that asks for it: by button, and in words.
package gate
