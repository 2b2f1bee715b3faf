/*
 * What the programs use of the kernel's interface: the layouts of include/uapi/linux/bpf.h and of the
 * protocols' headers, and the helpers by their numbers. It stands here so that the object depends on the
 * compiler alone, and not on the headers of the machine that it is made on.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))
#define htons(x) ((u16)__builtin_bswap16((u16)(x)))
#define ntohs(x) htons(x)
#define htonl(x) ((u32)__builtin_bswap32((u32)(x)))
#define ntohl(x) htonl(x)

/*
 * struct __sk_buff, as far as it is read. The ends of the packet are volatile, so that each is read as the
 * pointer that the kernel makes of it, and not kept as the number that it is declared to be.
 */
struct __sk_buff {
	u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
	u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid;
	volatile u32 data, data_end;
	u32 between[20];
	u32 gso_segs;
	u64 sk;
	u32 gso_size;
};

struct ethernet {
	u8 to[6], from[6];
	u16 protocol;
} __attribute__((packed));

struct ipv4 {
	u8 version, tos;
	u16 length, id, fragment;
	u8 ttl, protocol;
	u16 checksum;
	u32 from, to;
};

struct ipv6 {
	u32 flow;
	u16 length;
	u8 next, limit;
	u32 from[4], to[4];
};

enum { ETH_IPV4 = 0x0800, ETH_IPV6 = 0x86dd };
enum { TCP = 6, UDP = 17, ICMP4 = 1, ICMP6 = 58 };
enum { NEXT = -1, DROP = 2 }; /* TCX_NEXT, which clsact knows as TC_ACT_UNSPEC; and TC_ACT_SHOT */
enum { INGRESS = 1 };             /* flag of redirect */
enum { PSEUDO_HEADER = 1 << 4, MANGLED_ZERO = 1 << 5 }; /* flags of l4_csum_replace */

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static u32 (*random)(void) = (void *)7;
static long (*l4_csum_replace)(struct __sk_buff *, u32 at, u64 from, u64 to, u64 flags) = (void *)11;
static long (*redirect)(u32 link, u64 flags) = (void *)23;
static long (*csum_diff)(u32 *from, u32 from_size, u32 *to, u32 to_size, u32 seed) = (void *)28;
static long (*change_proto)(struct __sk_buff *, u16 protocol, u64 flags) = (void *)31;
static long (*pull_data)(struct __sk_buff *, u32 size) = (void *)39;
static long (*change_head)(struct __sk_buff *, u32 size, u64 flags) = (void *)43;

/* Maps are declared by types alone (BTF). */
#define uint(name, value) int(*name)[value]
#define type(name, value) typeof(value) *name
enum { MAP_HASH = 1, MAP_PERCPU_ARRAY = 6 };
