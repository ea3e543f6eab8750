/* sys.monitoring, from CPython 3.12 on. */
#pragma once

#include "internal/pycore_instruments.h"

/* 1 if a tool has LINE or INSTRUCTION events in this code. The tool that sys.settrace uses has its events in every
 * thread and does not count. */
static inline int is_monitored(PyCodeObject* code) {
  if (!code->_co_monitoring) return 0;
  const _Py_LocalMonitors* active = &code->_co_monitoring->active_monitors;
  int tools = active->tools[PY_MONITORING_EVENT_LINE] | active->tools[PY_MONITORING_EVENT_INSTRUCTION];
  return (tools & ~(1 << PY_MONITORING_SYS_TRACE_ID)) != 0;
}
