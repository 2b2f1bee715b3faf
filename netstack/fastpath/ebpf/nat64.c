/*
 * Translates packets between a pod and the IPv4 internet where that is simple: unfragmented TCP, UDP and
 * echo messages without options that fit. Everything else is left to package xlat behind the TUN links, and
 * what is done here must be what package xlat does, byte for byte but for IPv4 identifications.
 *
 *   starling_out   on the machine's end of a pod's link, what the pod sends:
 *             IPv6 to the NAT64 prefix becomes IPv4 from the pod's native address;
 *             IPv4 from 192.0.0.2 gets the pod's address behind its CLAT as its source.
 *             Both seem to come in from the NAT64 link, as what the TUN emits does: the kernel's rules and
 *             its check of the way back are the same for either way.
 *   starling_in    on the machine's NAT64 link, what comes back to either address, on its way to the TUN:
 *             the reverse, and on to the pod's link.
 *   starling_clat  on a pod's CLAT link, what its programs send to IPv4 addresses, on its way to the TUN:
 *             what starling_out will take is put on the pod's Ethernet link.
 *
 * The two translations of a CLAT's packet, to IPv6 and back, come to one rewriting of IPv4.
 *
 * Checksums: a packet from a local program has a partial one, which l4_csum_replace knows of. Headers are
 * written directly, since packets that are sent or forwarded never carry a sum over the whole
 * (CHECKSUM_COMPLETE), which would have to follow.
 */
#include "kernel.h"

char terms[] SEC("license") = "Apache-2.0";

/* The configuration, set before loading. Addresses are in network order. */
const volatile u32 prefix[3];                 /* NAT64 prefix, a /96 */
const volatile u32 well_known;                /* it is 64:ff9b::/96, for global addresses only */
const volatile u32 range, range_mask;         /* the pods' IPv4 addresses behind this machine */
const volatile u32 inside;                    /* 192.0.0.2 */
const volatile u32 mtu;                       /* of the NAT64 link and, but for 20 bytes, the CLAT links */
const volatile u32 nat64_link;                /* the machine's NAT64 link */
const volatile u32 tun_header;                /* length of the link-layer header at the TUN links: none */
const volatile u32 eth_mtu;                   /* starling_clat: the MTU of the pod's Ethernet link */
const volatile u32 eth_link;                  /* starling_clat: the pod's Ethernet link, */
const volatile u8 eth_machine[6], eth_pod[6]; /* and the addresses at its two ends */

struct pod {
	u32 address[4];
	u32 native, behind; /* its IPv4 addresses: as an IPv6 host, and behind its CLAT */
	u32 link, mtu;      /* the machine's end of its link, and what that carries */
	u8 machine_mac[6], pod_mac[6];
};

struct {
	uint(type, MAP_HASH);
	uint(max_entries, 65536);
	uint(map_flags, 1); /* BPF_F_NO_PREALLOC: memory follows the number of pods */
	type(key, u32);
	type(value, struct pod);
} by_link SEC(".maps"), by_address SEC(".maps");

enum count { OUT6, IN6, OUT4, IN4, SPOOFED, REFUSED, COUNTS };

struct {
	uint(type, MAP_PERCPU_ARRAY);
	uint(max_entries, COUNTS);
	type(key, u32);
	type(value, u64);
} counts SEC(".maps");

enum {
	ETH = sizeof(struct ethernet),
	IP4 = sizeof(struct ipv4),
	IP6 = sizeof(struct ipv6),
	SAFE = 1260, /* an IPv4 packet up to this size may be fragmented on its way (RFC 7915, section 5.1) */
	CLAT_EXTRA = 8, /* the CLAT's packets are on no link, and may be so much longer than the MTU */
};

static inline void count(u32 what)
{
	u64 *n = map_lookup(&counts, &what);
	if (n)
		(*n)++;
}

/* at returns size bytes of the packet that begin at offset; 0 if there are not as many. */
static inline void *at(struct __sk_buff *skb, u32 offset, u32 size)
{
	void *p = (void *)(long)skb->data + offset;
	if (p + size <= (void *)(long)skb->data_end)
		return p;
	if (pull_data(skb, offset + size))
		return 0;
	p = (void *)(long)skb->data + offset;
	return p + size <= (void *)(long)skb->data_end ? p : 0;
}

/* legal is false for addresses that no router forwards from or to (RFC 1812, section 5.3.7). */
static inline int legal(u32 address)
{
	u8 first = ntohl(address) >> 24;
	return first != 0 && first != 127 && first < 224;
}

static inline int within(u32 address, u32 base, int bits)
{
	return (ntohl(address) ^ base) >> (32 - bits) == 0;
}

/* global is false for what the well-known prefix must not stand for (RFC 6052, section 3.1). */
static inline int global(u32 a)
{
	return !(within(a, 0x0a000000, 8) || within(a, 0x64400000, 10) || within(a, 0xa9fe0000, 16) ||
		 within(a, 0xac100000, 12) || within(a, 0xc0000000, 24) || within(a, 0xc0000200, 24) ||
		 within(a, 0xc0a80000, 16) || within(a, 0xc6120000, 15) || within(a, 0xc6336400, 24) ||
		 within(a, 0xcb007100, 24));
}

/* outside tells whether an address may be the other end of a pod's connection. */
static inline int outside(u32 a)
{
	return legal(a) && (a & range_mask) != range && (!well_known || global(a));
}

/* packet is what a translation needs to know. */
struct packet {
	u32 from, to; /* IPv4 */
	u8 tos, ttl, protocol;
	u8 type, code; /* of an echo message */
	u16 length;    /* of the payload */
	u32 segment;   /* the same of the largest packet on the wire, if this is a superpacket */
};

/* transport reads the transport header at offset and tells whether it can be taken. */
static inline int transport(struct __sk_buff *skb, u32 offset, struct packet *p, u8 echo, u8 reply)
{
	u32 header = 8;
	u8 *b;
	switch (p->protocol) {
	case TCP:
		if (!(b = at(skb, offset, 20)))
			return 0;
		header = (b[12] >> 4) * 4;
		break;
	case UDP:
		if (!(b = at(skb, offset, 8)) || !(b[6] | b[7]))
			return 0; /* a checksum is to be computed over all of it */
		break;
	case ICMP4:
	case ICMP6:
		if (!(b = at(skb, offset, 8)) || (b[0] != echo && b[0] != reply) || skb->gso_size)
			return 0;
		p->type = b[0];
		p->code = b[1];
		break;
	default:
		return 0;
	}
	p->segment = skb->gso_size ? header + skb->gso_size : p->length;
	return 1;
}

static inline u16 fold(u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (u16)(sum + (sum >> 16));
}

static inline u16 header_sum(struct ipv4 *h)
{
	u16 *w = (u16 *)h;
	u32 sum = 0;
#pragma unroll
	for (int i = 0; i < 10; i++)
		sum += w[i];
	return fold(sum);
}

/* parse4 reads an IPv4 packet and tells whether it can be taken; ttl is how much it must have left. */
static inline int parse4(struct __sk_buff *skb, u32 offset, struct packet *p, u8 ttl)
{
	struct ipv4 *h = at(skb, offset, IP4);
	if (!h || h->version != 0x45 || h->fragment & htons(0x3fff) || h->ttl <= ttl ||
	    ntohs(h->length) != skb->len - offset || header_sum(h) != 0xffff)
		return 0;
	p->from = h->from;
	p->to = h->to;
	p->tos = h->tos;
	p->ttl = h->ttl;
	p->protocol = h->protocol;
	p->length = ntohs(h->length) - IP4;
	return p->protocol != ICMP6 && transport(skb, offset + IP4, p, 8, 0);
}

/* put4 writes an IPv4 header, as a packet has it that was translated from IPv6. */
static inline int put4(struct __sk_buff *skb, u32 offset, struct packet *p)
{
	int keep = IP4 + p->segment > SAFE; /* don't fragment */
	struct ipv4 *h = at(skb, offset, IP4);
	if (!h)
		return 0;
	h->version = 0x45;
	h->tos = p->tos;
	h->length = htons(IP4 + p->length);
	h->id = keep ? 0 : (u16)random();
	h->fragment = keep ? htons(0x4000) : 0;
	h->ttl = p->ttl;
	h->protocol = p->protocol;
	h->checksum = 0;
	h->from = p->from;
	h->to = p->to;
	h->checksum = ~header_sum(h);
	return 1;
}

/* amend brings the transport header's checksum in line with addresses that differ by diff. */
static inline int amend(struct __sk_buff *skb, u32 offset, u8 protocol, long diff)
{
	u64 flags = PSEUDO_HEADER | (protocol == UDP ? MANGLED_ZERO : 0);
	u32 field = protocol == TCP ? 16 : protocol == UDP ? 6 : 2;
	return !l4_csum_replace(skb, offset + field, 0, (u32)diff, flags);
}

/* retype gives an echo message the type that it has in the other family. */
static inline int retype(struct __sk_buff *skb, u32 offset, struct packet *p, u8 type)
{
	u8 *b = at(skb, offset, 8);
	if (!b)
		return 0;
	b[0] = type;
	return !l4_csum_replace(skb, offset + 2, htons(p->type << 8 | p->code), htons(type << 8 | p->code), 2);
}

/* restamp rewrites an IPv4 packet as the two translations of a CLAT do; old is the address that gave way. */
static inline int restamp(struct __sk_buff *skb, u32 offset, struct packet *p, u32 old, u32 new)
{
	p->ttl -= 2;
	if (!put4(skb, offset, p))
		return 0;
	return p->protocol == ICMP4 || amend(skb, offset + IP4, p->protocol, csum_diff(&old, 4, &new, 4, 0));
}

/* pseudo6 is what an ICMPv6 checksum covers beside the addresses. */
static inline long pseudo6(struct packet *p, long diff, int add)
{
	u32 words[2] = { htonl(p->length), htonl(ICMP6) };
	if (add)
		return csum_diff(0, 0, words, 8, diff);
	return csum_diff(words, 8, 0, 0, diff);
}

static inline int prefixed(u32 *a)
{
	return a[0] == prefix[0] && a[1] == prefix[1] && a[2] == prefix[2];
}

static inline int is(u32 *a, u32 *b)
{
	return a[0] == b[0] && a[1] == b[1] && a[2] == b[2] && a[3] == b[3];
}

/* out6 takes an IPv6 packet of a pod. */
static inline int out6(struct __sk_buff *skb, struct pod *pod)
{
	struct packet p = {};
	u32 old[8], new[2];
	struct ipv6 *h = at(skb, ETH, IP6);
	if (!h || (h->flow & htonl(0xf0000000)) != htonl(0x60000000) || !prefixed(h->to) || !is(h->from, pod->address))
		return NEXT;
	__builtin_memcpy(old, h->from, 32);
	p.from = pod->native;
	p.to = h->to[3];
	p.tos = ntohl(h->flow) >> 20;
	p.ttl = h->limit - 1;
	p.protocol = h->next;
	p.length = ntohs(h->length);
	if (h->limit <= 1 || p.length != skb->len - ETH - IP6 || !outside(p.to) || p.protocol == ICMP4 ||
	    !transport(skb, ETH + IP6, &p, 128, 129) || IP4 + p.segment > mtu)
		return NEXT;
	if (change_proto(skb, htons(ETH_IPV4), 0))
		return NEXT; /* a superpacket of another kind: nothing has changed */
	struct ethernet *e = at(skb, 0, ETH);
	if (!e)
		return DROP;
	e->protocol = htons(ETH_IPV4);
	new[0] = p.from;
	new[1] = p.to;
	long diff;
	if (p.protocol == ICMP6) {
		p.protocol = ICMP4;
		diff = pseudo6(&p, csum_diff(old, 32, 0, 0, 0), 0);
		if (!retype(skb, ETH + IP4, &p, p.type == 128 ? 8 : 0))
			return DROP;
	} else {
		diff = csum_diff(old, 32, new, 8, 0);
	}
	if (!put4(skb, ETH, &p) || !amend(skb, ETH + IP4, p.protocol, diff))
		return DROP;
	count(OUT6);
	return redirect(nat64_link, INGRESS);
}

/* out4 takes an IPv4 packet that a pod's starling_clat has passed. Nothing else of IPv4 comes from a pod. */
static inline int out4(struct __sk_buff *skb, struct pod *pod)
{
	struct packet p = {};
	struct ipv4 *h = at(skb, ETH, IP4);
	if (!h || h->from != inside) {
		count(SPOOFED);
		return DROP;
	}
	if (!parse4(skb, ETH, &p, 2) || !outside(p.to) || IP6 + p.segment > mtu + CLAT_EXTRA || IP4 + p.segment > mtu) {
		count(REFUSED);
		return DROP;
	}
	p.from = pod->behind;
	if (!restamp(skb, ETH, &p, inside, pod->behind))
		return DROP;
	count(OUT4);
	return redirect(nat64_link, INGRESS);
}

SEC("tc") int starling_out(struct __sk_buff *skb)
{
	u32 link = skb->ifindex;
	struct pod *pod = map_lookup(&by_link, &link);
	if (!pod)
		return NEXT;
	if (skb->protocol == htons(ETH_IPV6))
		return out6(skb, pod);
	if (skb->protocol == htons(ETH_IPV4))
		return out4(skb, pod);
	return NEXT;
}

/* frame puts a link-layer header in front of a packet that has none. */
static inline int frame(struct __sk_buff *skb, const volatile u8 *to, const volatile u8 *from, u16 protocol)
{
	if (!tun_header && change_head(skb, ETH, 0))
		return 0;
	struct ethernet *e = at(skb, 0, ETH);
	if (!e)
		return 0;
#pragma unroll
	for (int i = 0; i < 6; i++) {
		e->to[i] = to[i];
		e->from[i] = from[i];
	}
	e->protocol = htons(protocol);
	return 1;
}

/* in6 takes an answer for an IPv6 program. */
static inline int in6(struct __sk_buff *skb, struct pod *pod, struct packet *p)
{
	u32 old[2] = { p->from, p->to }, new[8] = { prefix[0], prefix[1], prefix[2], p->from };
	__builtin_memcpy(new + 4, pod->address, 16);
	if (change_proto(skb, htons(ETH_IPV6), 0))
		return NEXT;
	if (!frame(skb, pod->pod_mac, pod->machine_mac, ETH_IPV6))
		return DROP;
	struct ipv6 *h = at(skb, ETH, IP6);
	if (!h)
		return DROP;
	h->flow = htonl(6u << 28 | (u32)p->tos << 20);
	h->length = htons(p->length);
	h->next = p->protocol == ICMP4 ? ICMP6 : p->protocol;
	h->limit = p->ttl - 1;
	__builtin_memcpy(h->from, new, 32);
	long diff;
	if (p->protocol == ICMP4) {
		diff = pseudo6(p, csum_diff(0, 0, new, 32, 0), 1);
		if (!retype(skb, ETH + IP6, p, p->type == 8 ? 128 : 129))
			return DROP;
	} else {
		diff = csum_diff(old, 8, new, 32, 0);
	}
	if (!amend(skb, ETH + IP6, p->protocol, diff))
		return DROP;
	count(IN6);
	return redirect(pod->link, 0);
}

/* in4 takes an answer for an IPv4 program. */
static inline int in4(struct __sk_buff *skb, struct pod *pod, struct packet *p)
{
	if (p->ttl <= 2)
		return NEXT;
	p->to = inside;
	if (!restamp(skb, tun_header, p, pod->behind, inside) ||
	    !frame(skb, pod->pod_mac, pod->machine_mac, ETH_IPV4))
		return DROP;
	count(IN4);
	return redirect(pod->link, 0);
}

SEC("tc") int starling_in(struct __sk_buff *skb)
{
	struct packet p = {};
	if (skb->protocol != htons(ETH_IPV4) || !parse4(skb, tun_header, &p, 1))
		return NEXT;
	struct pod *pod = map_lookup(&by_address, &p.to);
	if (!pod || !outside(p.from) || IP6 + p.segment > mtu)
		return NEXT;
	if (p.to == pod->native)
		return IP6 + p.segment > pod->mtu ? NEXT : in6(skb, pod, &p);
	return IP4 + p.segment > pod->mtu ? NEXT : in4(skb, pod, &p);
}

SEC("tc") int starling_clat(struct __sk_buff *skb)
{
	struct packet p = {};
	if (skb->protocol != htons(ETH_IPV4) || !parse4(skb, tun_header, &p, 2) || p.from != inside || !outside(p.to) ||
	    IP6 + p.segment > mtu + CLAT_EXTRA || IP4 + p.segment > mtu || IP4 + p.segment > eth_mtu)
		return NEXT;
	if (!frame(skb, eth_machine, eth_pod, ETH_IPV4))
		return NEXT;
	return redirect(eth_link, 0);
}
