/* SPDX-License-Identifier: Apache-2.0 */
/* A signal that the system gives to a worker thread waits while the main thread holds signals back, as it does between two renames. */
#include "../../cli/finish.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void *take_signal(void *signal_number)
{
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    raise(*(const int *)signal_number); /* this thread takes it */
    return NULL;
}

/* Writes one byte to fd when it outlived the signal, then lets it in. */
static void hold_back(int signal_number, int fd)
{
    pthread_t worker;
    sigset_t all, before;
    finish_install_handlers();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&worker, NULL, take_signal, &signal_number) != 0 || pthread_join(worker, NULL) != 0 || write(fd, "x", 1) != 1)
        _exit(1);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    _exit(0);
}

/* The status of waitpid; *outlived says whether the byte came. */
static int run(int signal_number, int *outlived)
{
    char byte;
    int ends[2], status = 0;
    if (pipe(ends) != 0)
        return -1;
    const pid_t child = fork();
    if (child == 0)
        hold_back(signal_number, ends[1]);
    close(ends[1]);
    *outlived = read(ends[0], &byte, 1) == 1;
    close(ends[0]);
    return waitpid(child, &status, 0) == child ? status : -1;
}

int main(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    int failed = 0;
    for (int i = 0; i < 3; i++) {
        int outlived = 0;
        signal(signals[i], SIG_DFL); /* a background job may ignore it */
        const int status = run(signals[i], &outlived);
        const int ended = i == 0 ? WIFEXITED(status) && WEXITSTATUS(status) == 130 : WIFSIGNALED(status) && WTERMSIG(status) == signals[i];
        if (!outlived || !ended) {
            printf("signal %d: %s, and the wait status is %d\n", signals[i], outlived ? "held back" : "not held back", status);
            failed = 1;
        }
    }
    return failed;
}
