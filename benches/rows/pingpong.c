/* The least that a call in another process can be: the same bytes there and a number back, through shared memory.
 *
 *   pingpong ring  BYTES TRIPS     who waits polls
 *   pingpong futex BYTES TRIPS     who waits sleeps in the kernel
 *
 * Makes so many round trips and prints the median's seconds. Each includes one clock reading.
 */
#include <linux/futex.h>
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

enum { BYTES_MAX = 1 << 16, TRIPS_MAX = 1 << 20, WARM_TRIPS = 50 };

/* A place for one message between two processes: `turn` counts up with each. The bytes have cache lines of their own. */
struct slot {
    _Alignas(64) _Atomic unsigned turn;
    _Alignas(64) char bytes[BYTES_MAX];
};

static int sleeps;

static void check(int is_good, const char *what) {
    if (!is_good) {
        perror(what);
        exit(1);
    }
}

static void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static void put(struct slot *slot, const char *bytes, size_t size) {
    memcpy(slot->bytes, bytes, size);
    atomic_fetch_add_explicit(&slot->turn, 1, memory_order_release);
    if (sleeps) syscall(SYS_futex, &slot->turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void take(struct slot *slot, unsigned seen, char *bytes, size_t size) {
    while (atomic_load_explicit(&slot->turn, memory_order_acquire) == seen) {
        if (sleeps)
            syscall(SYS_futex, &slot->turn, FUTEX_WAIT, seen, NULL, NULL, 0);
        else
            relax();
    }
    memcpy(bytes, slot->bytes, size);
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

int main(int count, char **words) {
    static char bytes[BYTES_MAX];
    static double took[TRIPS_MAX];
    check(count == 4, "usage: pingpong ring|futex BYTES TRIPS");
    sleeps = strcmp(words[1], "futex") == 0;
    size_t size = atoi(words[2]);
    int trips = atoi(words[3]);
    check(size <= BYTES_MAX && trips > 0 && trips <= TRIPS_MAX - WARM_TRIPS, "sizes");
    struct slot *slots = mmap(NULL, 2 * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(slots != MAP_FAILED, "mmap");
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned seen = 0;; seen++) {
            take(&slots[0], seen, bytes, size);
            put(&slots[1], bytes, 0);
        }
    }
    double before = now();
    for (int trip = 0; trip < WARM_TRIPS + trips; trip++) {
        put(&slots[0], bytes, size);
        take(&slots[1], trip, bytes, 0);
        double after = now();
        took[trip] = after - before;
        before = after;
    }
    kill(child, SIGKILL);
    qsort(took + WARM_TRIPS, trips, sizeof *took, ascending);
    printf("%.9f\n", took[WARM_TRIPS + trips / 2]);
    return 0;
}
