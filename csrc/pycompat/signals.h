/* Signals that arrive while compiled code runs. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Non-zero while a signal waits for its Python handler; may be read from any thread, without the GIL. */
const volatile int* appy_signal_flag(void);

/* Runs the handlers of pending signals if this is the main thread; the GIL is taken for it if need be. Returns 1 where
 * one of them raised: the exception is set. */
int appy_run_signal_handlers(void);

#ifdef __cplusplus
}
#endif
