/* The least that a round trip of a task over TCP can be: the same bytes through the same chain of processes.
 *
 *   relay chain PORT TASK ANSWER        a process at the connection hands each message to a worker by shared memory
 *   relay bare  PORT TASK ANSWER        the process at the connection answers by itself
 *   relay ask   HOST PORT TASK ANSWER   for each number read, makes so many round trips and prints the median's seconds
 *
 * TASK and ANSWER are sizes in bytes. Whoever waits sleeps in the kernel: read or futex.
 */
#include <arpa/inet.h>
#include <linux/futex.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 16, TRIPS_MAX = 1 << 20 };

/* A place for one message between two processes: `turn` counts up with each. */
struct slot {
    _Atomic unsigned turn;
    char bytes[BYTES_MAX];
};

static void check(int is_good, const char *what) {
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static void put(struct slot *slot, const char *bytes, size_t size) {
    memcpy(slot->bytes, bytes, size);
    atomic_fetch_add(&slot->turn, 1);
    syscall(SYS_futex, &slot->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void take(struct slot *slot, unsigned seen, char *bytes, size_t size) {
    while (atomic_load(&slot->turn) == seen) syscall(SYS_futex, &slot->turn, FUTEX_WAIT, seen, NULL, NULL, 0);
    memcpy(bytes, slot->bytes, size);
}

static int receive(int connection, char *bytes, size_t size) {
    for (size_t have = 0; have < size;) {
        ssize_t more = read(connection, bytes + have, size - have);
        if (more <= 0) return 0;
        have += more;
    }
    return 1;
}

static int without_delay(int connection) {
    int on = 1;
    check(connection >= 0, "connection");
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return connection;
}

static int accept_one(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    check(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 1) == 0, "listen");
    puts("listening");
    fflush(stdout);
    return without_delay(accept(listener, NULL, NULL));
}

static void work(struct slot *tasks, struct slot *answers, size_t task, size_t answer) {
    static char bytes[BYTES_MAX];
    for (unsigned seen = 0;; seen++) {
        take(tasks, seen, bytes, task);
        put(answers, bytes, answer);
    }
}

static void serve(int is_chain, int port, size_t task, size_t answer) {
    static char bytes[BYTES_MAX];
    struct slot *slots = mmap(NULL, 2 * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(slots != MAP_FAILED, "mmap");
    if (is_chain && fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work(&slots[0], &slots[1], task, answer);
    }
    int connection = accept_one(port);
    for (unsigned seen = 0; receive(connection, bytes, task); seen++) {
        if (is_chain) {
            put(&slots[0], bytes, task);
            take(&slots[1], seen, bytes, answer);
        }
        check(write(connection, bytes, answer) == (ssize_t)answer, "write");
    }
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static int ascending(const void *one, const void *other) {
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static void ask(const char *host, const char *port, size_t task, size_t answer) {
    static char bytes[BYTES_MAX];
    static double took[TRIPS_MAX];
    struct addrinfo wanted = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
    check(getaddrinfo(host, port, &wanted, &found) == 0, "host");
    int connection = without_delay(socket(AF_INET, SOCK_STREAM, 0));
    check(connect(connection, found->ai_addr, found->ai_addrlen) == 0, "connect");
    for (int count; scanf("%d", &count) == 1 && count > 0 && count <= TRIPS_MAX;) {
        double before = now();
        for (int trip = 0; trip < count; trip++) {
            check(write(connection, bytes, task) == (ssize_t)task && receive(connection, bytes, answer), "trip");
            double after = now();
            took[trip] = after - before;
            before = after;
        }
        qsort(took, count, sizeof *took, ascending);
        printf("%.9f\n", took[count / 2]);
        fflush(stdout);
    }
}

int main(int count, char **words) {
    check(count >= 5, "usage: relay chain|bare PORT TASK ANSWER, relay ask HOST PORT TASK ANSWER");
    size_t task = atoi(words[count - 2]), answer = atoi(words[count - 1]);
    check(task > 0 && task <= BYTES_MAX && answer > 0 && answer <= BYTES_MAX, "sizes");
    if (strcmp(words[1], "ask") == 0)
        ask(words[2], words[3], task, answer);
    else
        serve(strcmp(words[1], "chain") == 0, atoi(words[2]), task, answer);
}
