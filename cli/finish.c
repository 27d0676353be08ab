/* SPDX-License-Identifier: Apache-2.0 */
#include "finish.h"
#include "message.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a signal handler needs to know. */
static _Atomic(attn_outputs *) watched;
static atomic_bool holds, interrupted;
static pthread_t main_thread;

/* The main thread alone ends the command, whichever thread the system chose: while outputs appear under their names the library holds
   signals back there, so that no signal comes between two of them. */
static void on_signal(int signal_number)
{
    if (!pthread_equal(pthread_self(), main_thread)) {
        const int error = errno;
        pthread_kill(main_thread, signal_number);
        errno = error;
        return;
    }
    if (signal_number == SIGINT && atomic_load(&holds) && !atomic_exchange(&interrupted, true))
        return;
    attn_outputs_unlink(atomic_load(&watched));
    if (signal_number == SIGINT)
        _exit(EXIT_INTERRUPTED);
    signal(signal_number, SIG_DFL);
    raise(signal_number); /* delivered with the default action when this handler returns */
}

static void at_exit(void) { attn_outputs_unlink(atomic_load(&watched)); }

void finish_install_handlers(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    main_thread = pthread_self();
    sigemptyset(&action.sa_mask);
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* nohup and background jobs ignore some */
            sigaction(signals[i], &action, NULL);
    }
    atexit(at_exit);
}

void finish_watch(attn_outputs *set) { atomic_store(&watched, set); }

void finish_hold_interrupts(bool hold) { atomic_store(&holds, hold); }

bool finish_interrupted(void) { return atomic_load(&interrupted); }

int finish_stdout(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_DONE;
    const int reason = errno;
    clearerr(stdout);
    return trouble("standard output was not written: %s", reason ? strerror(reason) : "a write failed");
}
