// Package dns64 answers for names that have only IPv4 addresses with IPv6 addresses that
// lead to them through a NAT64 (RFC 6147). It makes no queries and keeps no state: it is
// given the client's query and a function that asks upstream, and decides what to ask and
// what to answer.
//
//	local    ipv4only.arpa, from which hosts learn the prefix (RFC 7050, RFC 8880), and
//	         the reverse names of addresses under a prefix
//	AAAA     asked upstream as it is; if that finds no usable address, A is asked, and
//	         each address found is put under each prefix
//	others   not touched
//
// What is made up here is never said to be authenticated: AD is cleared, and signatures
// that no longer fit are taken out. A client that validates for itself (DO and CD set)
// gets the original answers. Nothing is made from an answer that upstream could not
// validate: a validating resolver reports a bogus answer as SERVFAIL, and other failures
// look the same, so no SERVFAIL is ever followed by a synthesis. That is stricter than
// RFC 6147, section 5.1.2, which treats failures of broken servers as empty answers; of
// the other error codes this package does so too.
package dns64
