/* The bare kernel loop that linerate is measured against: no header, no accounting, no pacing, no clock but the end.
 *
 *   udp tx ADDRESS PORT BYTES SECONDS CORE MESSAGES SEGMENTS   sendmmsg of MESSAGES, UDP_SEGMENT when SEGMENTS > 1
 *   udp rx PORT BYTES SECONDS CORE MESSAGES MERGE              recvmmsg of MESSAGES, UDP_GRO when MERGE is 1;
 *                                                               2: without it, and the system's own buffer
 *
 * Prints one JSON object: datagrams, seconds, bytes, cpu_seconds. IPv4 only. cc -O2 -o udp udp.c
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#define MOST 1024

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void report(double datagrams, double bytes, double seconds) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double cpu = u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
    printf("{\"datagrams\":%.0f,\"bytes\":%.0f,\"seconds\":%.6f,\"cpu_seconds\":%.3f}\n", datagrams, bytes, seconds, cpu);
}

static void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int tx(char **a) {
    int bytes = atoi(a[2]), messages = atoi(a[5]), segments = atoi(a[6]);
    double seconds = atof(a[3]);
    pin(atoi(a[4]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0), buffer = 4 << 20;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(a[1]))};
    inet_pton(AF_INET, a[0], &to.sin_addr);
    if (connect(fd, (void *)&to, sizeof to)) return perror("connect"), 1;
    if (segments > 1 && setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &bytes, sizeof bytes)) return perror("UDP_SEGMENT"), 1;
    static char payload[1 << 17];
    static struct mmsghdr m[MOST];
    static struct iovec v[MOST];
    for (int i = 0; i < messages; i++) {
        v[i].iov_base = payload;
        v[i].iov_len = (size_t)bytes * segments;
        m[i].msg_hdr.msg_iov = &v[i];
        m[i].msg_hdr.msg_iovlen = 1;
    }
    double start = now(), t = start, datagrams = 0;
    while (t - start < seconds) {
        for (int k = 0; k < 64; k++) {
            int r = sendmmsg(fd, m, messages, 0);
            if (r > 0) datagrams += (double)r * segments;
        }
        t = now();
    }
    report(datagrams, datagrams * bytes, t - start);
    return 0;
}

static int rx(char **a) {
    int bytes = atoi(a[1]), messages = atoi(a[4]), merge = atoi(a[5]), buffer = 4 << 20, one = 1;
    double seconds = atof(a[2]);
    pin(atoi(a[3]));
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (merge != 2) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (merge == 2) merge = 0;
    struct timeval limit = {0, 100000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (merge && setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof one)) return perror("UDP_GRO"), 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(a[0]))};
    if (bind(fd, (void *)&at, sizeof at)) return perror("bind"), 1;
    size_t room = merge ? 65536 : bytes + 16;
    char *space = malloc(room * messages);
    static char control[MOST][64];
    static struct mmsghdr m[MOST];
    static struct iovec v[MOST];
    double start = now(), t = start, first = 0, last = 0, datagrams = 0, total = 0;
    while (t - start < seconds) {
        for (int i = 0; i < messages; i++) {
            v[i].iov_base = space + room * i;
            v[i].iov_len = room;
            m[i].msg_hdr.msg_iov = &v[i];
            m[i].msg_hdr.msg_iovlen = 1;
            m[i].msg_hdr.msg_control = merge ? control[i] : 0;
            m[i].msg_hdr.msg_controllen = merge ? sizeof control[i] : 0;
        }
        int r = recvmmsg(fd, m, messages, MSG_WAITFORONE, 0);
        for (int i = 0; i < r; i++) {
            total += m[i].msg_len;
            datagrams += merge ? (m[i].msg_len + bytes - 1) / bytes : 1;
        }
        t = now();
        if (r > 0) {
            if (!first) first = t;
            last = t;
        }
    }
    report(datagrams, total, last - first);
    return 0;
}

int main(int c, char **a) {
    if (c == 9 && !strcmp(a[1], "tx")) return tx(a + 2);
    if (c == 8 && !strcmp(a[1], "rx")) return rx(a + 2);
    fprintf(stderr, "usage: udp tx ADDRESS PORT BYTES SECONDS CORE MESSAGES SEGMENTS | udp rx PORT BYTES SECONDS CORE MESSAGES MERGE\n");
    return 2;
}
