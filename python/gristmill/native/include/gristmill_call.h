/* The interface of native functions that need more than two buffers.
 *
 * A function of this interface has 64-bit sizes, says how it ended, and may ask for another output:
 *
 *     #include <gristmill_call.h>
 *
 *     int32_t f(gristmill_call *call) {
 *         if (call->output_capacity < call->input_size) return gristmill_fail(call, 1, "the output is too small");
 *         memcpy(call->output, call->input, call->input_size);
 *         call->output_size = call->input_size;
 *         return 0;
 *     }
 *
 * It returns 0, or a status of its own choice, which the caller's exception has. In C++ declare it extern "C".
 */
#ifndef GRISTMILL_CALL_H
#define GRISTMILL_CALL_H

#include <stdint.h>
#include <string.h>

typedef struct gristmill_call gristmill_call;

/* A buffer that the worker keeps, and that the function only reads. */
typedef struct gristmill_buffer {
    const void *data;
    uint64_t size;
} gristmill_buffer;

/* A call. It and all memory that it points to are valid until the function returns. */
struct gristmill_call {
    /* Bytes of this structure. Later versions of the interface have fields behind the last one. */
    uint64_t size;
    const void *input;
    uint64_t input_size;
    /* Room for the output. */
    void *output;
    uint64_t output_capacity;
    /* Bytes of the output: the function sets it. A function that writes more than the capacity damages its worker. */
    uint64_t output_size;
    /* Room for a text that says what went wrong, ended by a zero byte; empty at first. */
    char *error;
    uint64_t error_capacity;
    /* Returns 1 once the task is to stop: it was cancelled, or its time is over. The function should then return soon;
     * its worker is killed after the grace of the task. Only the thread that the function was called on may ask. */
    int32_t (*is_cancelled)(const gristmill_call *call);
    /* Makes room for an output of `capacity` bytes, all zero. Sets `output` and `output_capacity`, and returns `output`;
     * or returns NULL if there is no memory, and changes nothing. What was written before is lost. */
    void *(*allocate)(gristmill_call *call, uint64_t capacity);
    /* Of the caller. */
    void *caller;
    /* When the time of the task is over, by its timeout: nanoseconds of CLOCK_MONOTONIC; UINT64_MAX if it has none. */
    uint64_t deadline;
    /* Returns the nanoseconds that are left until the deadline: 0 once it has passed, UINT64_MAX if there is none. Any
     * thread may ask. A function that returns in time, with what it has by then, gives a result. */
    uint64_t (*time_left)(const gristmill_call *call);
    /* The buffers of `Library.function(kept=)`, in their order. */
    const gristmill_buffer *kept;
    uint64_t kept_count;
};

/* Sets the text of an error and returns the status, to be returned by the function. */
static inline int32_t gristmill_fail(gristmill_call *call, int32_t status, const char *text) {
    if (call->error_capacity > 0) {
        strncpy(call->error, text, call->error_capacity - 1);
        call->error[call->error_capacity - 1] = 0;
    }
    return status;
}

#endif
