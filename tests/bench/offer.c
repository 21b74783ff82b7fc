// An open-loop load generator: requests start when they are due, whatever the answers do.
// gcc -O2 -o offer offer.c; offer -a ADDRESS -p PORT -u PATH -R RATE -r TOTAL
// Every request is a connection of its own. Latency counts from the moment a request was due,
// so a server that stalls is charged for all that would have come meanwhile. Prints JSON.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096, ROOM = 65536 };
struct request { double due; int sent, got; char in[ROOM]; };

static struct request *by_fd[MOST + 64];
static struct sockaddr_in target;
static char text[2048];
static int length, poller, open_now;
static long done, errors;
static double *latency;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void finish(int fd, int good) {
    if (good) latency[done - errors] = now() - by_fd[fd]->due;
    else errors++;
    done++;
    open_now--;
    close(fd);
}

static void begin(double due) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    if (fd < 0 || fd >= MOST + 64) { if (fd >= 0) close(fd); errors++; done++; return; }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (!by_fd[fd]) by_fd[fd] = malloc(sizeof(struct request));
    struct request *r = by_fd[fd];
    r->due = due, r->sent = r->got = 0;
    open_now++;
    if (connect(fd, (void *)&target, sizeof target) && errno != EINPROGRESS) { finish(fd, 0); return; }
    struct epoll_event e = {.events = EPOLLOUT, .data.fd = fd};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
}

// 1 complete, 0 not yet, -1 not a good answer
static int judge(struct request *r, int closed) {
    r->in[r->got] = 0;
    if (r->got >= 12 && memcmp(r->in + 8, " 200", 4)) return -1;
    char *end = strstr(r->in, "\r\n\r\n"), *field;
    if (!end) return closed ? -1 : 0;
    *end = 0;
    int head = end + 4 - r->in, complete = closed;
    if ((field = strcasestr(r->in, "content-length:"))) complete = r->got >= head + atoi(field + 15);
    else if (strcasestr(r->in, "chunked")) complete = !memcmp(r->in + r->got - 5, "0\r\n\r\n", 5);
    *end = '\r';
    return complete ? 1 : closed ? -1 : 0;
}

static void serve(int fd) {
    struct request *r = by_fd[fd];
    if (!r->sent) {
        if (send(fd, text, length, MSG_NOSIGNAL) != length) { finish(fd, 0); return; }
        r->sent = 1;
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_MOD, fd, &e);
        return;
    }
    for (;;) {
        ssize_t n = recv(fd, r->in + r->got, ROOM - 1 - r->got, 0);
        if (n < 0 && errno == EAGAIN) return;
        if (n > 0) r->got += n;
        int verdict = judge(r, n <= 0);
        if (verdict) { finish(fd, verdict > 0); return; }
    }
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int count, char **words) {
    const char *address = "127.0.0.1", *path = "/";
    int option, port = 1815;
    double rate = 1000;
    long total = 1000, started = 0;
    while ((option = getopt(count, words, "a:p:u:R:r:")) > 0) switch (option) {
        case 'a': address = optarg; break;
        case 'p': port = atoi(optarg); break;
        case 'u': path = optarg; break;
        case 'R': rate = atof(optarg); break;
        case 'r': total = atol(optarg); break;
        default: fprintf(stderr, "offer -a ADDRESS -p PORT -u PATH -R RATE -r TOTAL\n"); return 2;
    }
    struct rlimit files = {MOST + 256, MOST + 256};
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    target.sin_family = AF_INET, target.sin_port = htons(port), target.sin_addr.s_addr = inet_addr(address);
    length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n", path);
    latency = calloc(total, sizeof *latency);
    poller = epoll_create1(0);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct epoll_event ready[256], e = {.events = EPOLLIN, .data.fd = timer};
    epoll_ctl(poller, EPOLL_CTL_ADD, timer, &e);
    double start = now() + 0.05, late = 0;
    while (done < total) {
        double at = now();
        if (at > start + total / rate + 10) break;  // what has not come by now never will
        while (started < total && start + started / rate <= at) {
            if (at - (start + started / rate) > late) late = at - (start + started / rate);
            begin(start + started++ / rate);
        }
        if (started < total) {
            double next = start + started / rate;
            struct itimerspec when = {.it_value = {(time_t)next, (long)((next - (time_t)next) * 1e9)}};
            timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, 0);
        }
        int n = epoll_wait(poller, ready, 256, 1000);
        for (int i = 0; i < n; i++) {
            uint64_t ticks;
            if (ready[i].data.fd == timer) { if (read(timer, &ticks, sizeof ticks) < 0) continue; }
            else serve(ready[i].data.fd);
        }
    }
    long good = done - errors;
    errors += total - done;
    qsort(latency, good, sizeof *latency, order);
#define AT(q) (good ? latency[(long)((good - 1) * (q))] * 1e3 : -1.0)
    printf("{\"good\": %ld, \"errors\": %ld, \"late_ms\": %.3f, \"p50_ms\": %.3f, \"p90_ms\": %.3f,"
           " \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f}\n",
           good, errors, late * 1e3, AT(.5), AT(.9), AT(.99), AT(.999), AT(1));
    return 0;
}
