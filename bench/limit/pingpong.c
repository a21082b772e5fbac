/* The bare request/response loop: one byte each way over TCP, as fast as the answers come.
 *
 *   pingpong serve PORT CORE            answers one connection until it closes
 *   pingpong ask ADDRESS PORT SECONDS CORE
 *
 * `ask` prints {"transactions":…,"seconds":…}. cc -O2 -o pingpong pingpong.c
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void pin(int core) {
    if (core < 0) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(int c, char **a) {
    int one = 1;
    char byte = 'x';
    if (c == 4 && !strcmp(a[1], "serve")) {
        pin(atoi(a[3]));
        int listener = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(a[2]))};
        if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1)) return perror("listen"), 1;
        int fd = accept(listener, 0, 0);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        while (recv(fd, &byte, 1, 0) == 1 && send(fd, &byte, 1, 0) == 1) {
        }
        return 0;
    }
    if (c == 6 && !strcmp(a[1], "ask")) {
        pin(atoi(a[5]));
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(a[3]))};
        inet_pton(AF_INET, a[2], &to.sin_addr);
        if (connect(fd, (void *)&to, sizeof to)) return perror("connect"), 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        double start = now(), end = start + atof(a[4]), t = start;
        unsigned long n = 0;
        while (t < end) {
            if (send(fd, &byte, 1, 0) != 1 || recv(fd, &byte, 1, 0) != 1) return perror("talk"), 1;
            n++;
            t = now();
        }
        printf("{\"transactions\":%lu,\"seconds\":%.6f}\n", n, t - start);
        return 0;
    }
    fprintf(stderr, "usage: pingpong serve PORT CORE | pingpong ask ADDRESS PORT SECONDS CORE\n");
    return 2;
}
