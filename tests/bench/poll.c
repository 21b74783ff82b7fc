// A farm of agents on addresses 127.OCTET.x.y, one process: each seals what it is asked for.
// gcc -O2 -o farm poll.c -lssl -lcrypto
// farm -m seal|drip|hang|hole -p PORT -o OCTET -n COUNT [-k KEY -t TEMPLATE] [-b BODY] [-C PEM] [-d MS]
// TEMPLATE is the text of a message in which @NAME@, @UUID@, @SALT@, @SEQ@, @TIME@ are filled in.
// All sign with one node key, whose seed is the beginning of KEY.
// BODY is what is answered to a target without a salt. A hole's full backlog drops every SYN.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 70000, ROOM = 2048, LARGE = 65536 };
struct one { int listens, node, got, asked, sent; double due; SSL *tls; char in[ROOM]; };

static struct one *by_fd[MOST];
static int waiting[MOST], first, last;  // a ring of descriptors that answer later, or drip
static int poller, port = 1817, octet = 1, delay;
static EVP_PKEY *node_key;
static char mode = 's', key[4096], template[16384], body[LARGE];
static unsigned char sub[32];
static int key_length;
static uint64_t sequence;
static SSL_CTX *context;

static double now_ms(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what) { perror(what); exit(1); }

static int content(const char *path, char *into, int most) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    int n = fread(into, 1, most - 1, file);
    fclose(file);
    return n;
}

static void watch(int fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e)) fail("epoll_ctl");
}

static void hang_up(int fd) {
    if (by_fd[fd]->tls) { SSL_shutdown(by_fd[fd]->tls); SSL_free(by_fd[fd]->tls); }
    free(by_fd[fd]);
    by_fd[fd] = NULL;
    close(fd);
}

static struct sockaddr_in place(int node) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    a.sin_addr.s_addr = htonl(127u << 24 | (unsigned)octet << 16 | (unsigned)(node + 1));
    return a;
}

static void listen_as(int node) {
    struct sockaddr_in a = place(node);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), yes = 1;
    if (fd < 0 || fd >= MOST) fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (void *)&a, sizeof a) || listen(fd, mode == 'o' ? 0 : 512)) fail("listen");
    if (mode == 'o') {  // one fills the backlog of none, and is never accepted
        int filler = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(filler, (void *)&a, sizeof a)) fail("connect");
        return;
    }
    by_fd[fd] = calloc(1, sizeof(struct one));
    by_fd[fd]->listens = 1, by_fd[fd]->node = node;
    watch(fd);
}

static void accept_from(int listener) {
    int fd, yes = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= MOST) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        struct one *c = by_fd[fd] = malloc(sizeof *c);
        memset(c, 0, offsetof(struct one, in));
        c->node = by_fd[listener]->node;
        if (context) {
            c->tls = SSL_new(context);
            SSL_set_fd(c->tls, fd);
            SSL_set_accept_state(c->tls);
        }
        watch(fd);
    }
}

static void hex(const unsigned char *from, int n, char *to) {
    for (int i = 0; i < n; i++) sprintf(to + 2 * i, "%02x", from[i]);
}

// The message for one node and one salt; returns its length.
static int fill(int node, const char *salt, char *to) {
    char *start = to;
    for (const char *p = template; *p;) {
        if (*p != '@') *to++ = *p++;
        else if (!strncmp(p, "@NAME@", 6)) to += sprintf(to, "node%05d.bench.example", node), p += 6;
        else if (!strncmp(p, "@UUID@", 6)) to += sprintf(to, "uuid-%05d", node), p += 6;
        else if (!strncmp(p, "@SALT@", 6)) to += sprintf(to, "%s", salt), p += 6;
        else if (!strncmp(p, "@SEQ@", 5)) to += sprintf(to, "%lu", ++sequence), p += 5;
        else if (!strncmp(p, "@TIME@", 6)) to += sprintf(to, "%.0f", now_ms(CLOCK_REALTIME)), p += 6;
        else *to++ = *p++;
    }
    *to = 0;
    return to - start;
}

static int seal(int node, const char *salt, char *to) {
    static char msg[32768], bytes[65536];
    unsigned char digest[32], signature[64];
    char weak[41], strong[65], own[129], *start = to;
    size_t signed_length = 64;
    int n = fill(node, salt, msg), head = strlen(salt);
    memcpy(bytes, salt, head), memcpy(bytes + head, msg, n);
    HMAC(EVP_sha1(), key, key_length, (void *)bytes, head + n, digest, NULL);
    hex(digest, 20, weak);
    char *b = bytes;
    memcpy(b, "nodeagent-v1", 13), b += 13;
    uint32_t length = htonl(head);
    memcpy(b, &length, 4), memcpy(b + 4, salt, head), memcpy(b + 4 + head, msg, n);
    HMAC(EVP_sha256(), sub, 32, (void *)bytes, 17 + head + n, digest, NULL);
    hex(digest, 32, strong);
    EVP_MD_CTX *signing = EVP_MD_CTX_new();
    if (EVP_DigestSignInit(signing, NULL, NULL, NULL, node_key) != 1
        || EVP_DigestSign(signing, signature, &signed_length, (void *)bytes, 17 + head + n) != 1) exit(1);
    EVP_MD_CTX_free(signing);
    hex(signature, 64, own);
    to += sprintf(to, "{\"name\": \"diagnose\", \"version\": \"B\", \"format_version\": 1, \"timestamp\": 1,"
                  " \"category\": \"node\", \"kind\": 1, \"data\": {\"msg\": \"");
    for (char *p = msg; *p; p++) {
        if (*p == '"' || *p == '\\') *to++ = '\\';
        *to++ = *p;
    }
    to += sprintf(to, "\", \"salt\": \"%s\", \"hmac\": \"%s\", \"hmac_sha256\": \"%s\", \"signature\": \"%s\"}}",
                  salt, weak, strong, own);
    return to - start;
}

static void say(int fd, const char *text, int n) {
    struct one *c = by_fd[fd];
    if (c->tls) SSL_write(c->tls, text, n);
    else send(fd, text, n, MSG_NOSIGNAL);
}

static void answer(int fd) {
    static char text[LARGE], all[LARGE + 512];
    struct one *c = by_fd[fd];
    char *salt = strstr(c->in, "salt="), *end;
    int n;
    if (salt && (end = strpbrk(salt, " &\r"))) {
        *end = 0;
        n = seal(c->node, salt + 5, text);
    } else n = sprintf(text, "%s", body);
    int head = sprintf(all, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                       "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n", n);
    memcpy(all + head, text, n);
    say(fd, all, head + n);
    hang_up(fd);
}

static void later(int fd, int ms) {
    by_fd[fd]->due = now_ms(CLOCK_MONOTONIC) + ms;
    waiting[last++ % MOST] = fd;
}

static void drip(int fd) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    if (!by_fd[fd]->sent++) say(fd, head, sizeof head - 1);
    else say(fd, "x", 1);
    later(fd, 100);
}

static void hear(int fd) {
    struct one *c = by_fd[fd];
    for (;;) {
        int n = c->tls ? SSL_read(c->tls, c->in + c->got, ROOM - 1 - c->got)
                       : recv(fd, c->in + c->got, ROOM - 1 - c->got, 0);
        if (n <= 0) {
            int more = c->tls ? SSL_get_error(c->tls, n) == SSL_ERROR_WANT_READ : n < 0 && errno == EAGAIN;
            ERR_clear_error();
            if (more) return;
            if (c->asked) { epoll_ctl(poller, EPOLL_CTL_DEL, fd, NULL); c->asked = 2; }
            else hang_up(fd);  // else the ring still names it
            return;
        }
        if (c->asked) continue;
        c->got += n;
        c->in[c->got] = 0;
        if (!strstr(c->in, "\r\n\r\n")) { if (c->got >= ROOM - 1) { hang_up(fd); return; } continue; }
        if (mode == 'h') continue;
        c->asked = 1;
        if (mode == 'd') { drip(fd); continue; }
        if (delay) { later(fd, delay); continue; }
        answer(fd);
        return;
    }
}

int main(int count, char **words) {
    int option, nodes = 1;
    char *pem = NULL;
    while ((option = getopt(count, words, "m:p:o:n:k:t:b:C:d:")) > 0) switch (option) {
        case 'm': mode = optarg[0] == 'h' && optarg[1] == 'o' ? 'o' : optarg[0]; break;
        case 'p': port = atoi(optarg); break;
        case 'o': octet = atoi(optarg); break;
        case 'n': nodes = atoi(optarg); break;
        case 'k': key_length = content(optarg, key, sizeof key); break;
        case 't': content(optarg, template, sizeof template); break;
        case 'b': content(optarg, body, sizeof body); break;
        case 'C': pem = optarg; break;
        case 'd': delay = atoi(optarg); break;
        default: return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    HMAC(EVP_sha256(), key, key_length, (void *)"nodeagent-v1\0report", 19, sub, NULL);
    node_key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, (void *)key, 32);
    if (pem) {
        context = SSL_CTX_new(TLS_server_method());
        if (SSL_CTX_use_certificate_chain_file(context, pem) != 1
            || SSL_CTX_use_PrivateKey_file(context, pem, SSL_FILETYPE_PEM) != 1) return 1;
    }
    poller = epoll_create1(0);
    for (int i = 0; i < nodes; i++) listen_as(i);
    printf("ready\n"), fflush(stdout);
    struct epoll_event ready[512];
    for (;;) {
        int wait = -1;
        if (first != last) {
            double left = by_fd[waiting[first % MOST]]->due - now_ms(CLOCK_MONOTONIC);
            wait = left < 0 ? 0 : (int)left + 1;
        }
        int n = epoll_wait(poller, ready, 512, wait);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (!by_fd[fd]) continue;
            if (by_fd[fd]->listens) accept_from(fd);
            else hear(fd);
        }
        double now = now_ms(CLOCK_MONOTONIC);
        while (first != last && by_fd[waiting[first % MOST]]->due <= now) {
            int fd = waiting[first++ % MOST];
            if (by_fd[fd]->asked == 2) hang_up(fd);
            else if (mode == 'd') drip(fd);
            else answer(fd);
        }
    }
}
