/* A clock that is wrong by as many microseconds as a file says: for LD_PRELOAD. The file holds one number
   of 64 bits, and is read through memory, so that the clock jumps as soon as somebody writes another one. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *wrong_by;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ALMANAC_TEST_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *memory = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (memory != MAP_FAILED) wrong_by = memory;
}

static void shift(struct timespec *now) {
    if (!wrong_by) return;
    int64_t micros = *wrong_by;
    int64_t nanos = (int64_t)now->tv_nsec + micros % 1000000 * 1000;
    now->tv_sec += micros / 1000000;
    if (nanos < 0) { nanos += 1000000000; now->tv_sec -= 1; }
    if (nanos >= 1000000000) { nanos -= 1000000000; now->tv_sec += 1; }
    now->tv_nsec = nanos;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(now);
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec fine;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &fine)) return -1;
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
