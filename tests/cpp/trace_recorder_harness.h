// Runs a statement in Python and, traced, on the reference evaluator, and compares what both leave behind.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/eval_kernel.h"
#include "runtime/numpy.h"
#include "runtime/specialization.h"
#include "support/abort.h"
#include "support/ref.h"
#include "trace/trace.h"

namespace appy::trace::testing {

inline constexpr const char* helper_source = R"py(
import ast, dis, textwrap

def describe(v):
    if type(v).__name__ == 'ndarray':
        return f'{v.dtype}{v.tolist()}'
    if isinstance(v, tuple):
        return '(' + ', '.join(map(describe, v)) + ')'
    return f'{type(v).__name__} {v!r}' if isinstance(v, (int, float, bool, type(None))) else type(v).__name__

def describe_all(d):
    return '; '.join(f'{k}={describe(d[k])}' for k in sorted(d))

def environment(setup):
    env = {}
    exec('import numpy as np, math\n' + setup, env)
    return env

def make(setup, names, statement, ending):
    env = environment(setup)
    source = f'def f({", ".join(names.split())}):\n{textwrap.indent(statement, "    ")}\n    {ending}\n'
    exec(compile(source, '<test>', 'exec'), env)
    return env, source

def region(code, statement):
    last = 2 + statement.strip('\n').count('\n')
    where = [(i.offset, i.positions.lineno or 0) for i in dis.get_instructions(code)]
    begin = min(o for o, line in where if 2 <= line <= last)
    tail = [k for k, (o, line) in enumerate(where) if line == last + 1]
    k = tail[-1]
    while where[k - 1][1] == last + 1:
        k -= 1
    return begin, where[k][0]

def iterables(statement):
    return {n.lineno: (n.iter.lineno + 1, n.iter.col_offset + 4, n.end_lineno + 1)
            for n in ast.walk(ast.parse(statement)) if isinstance(n, ast.For)}

def arrays(env, names):
    return describe_all({n: env[n] for n in names.split() if n in env and type(env[n]).__name__ == 'ndarray'})

def run(setup, names, statement):
    env, source = make(setup, names, statement, "return '--end--', dict(locals())")
    try:
        value = env['f'](*[env[n] for n in names.split()])
    except Exception as e:
        return f'{type(e).__name__}: {e}', arrays(env, names)
    if isinstance(value, tuple) and value and value[0] == '--end--':
        return 'done', describe_all(value[1])
    return 'exited ' + describe(value), arrays(env, names)
)py";

struct Ran {
  std::string graph;    // text; empty when the trace was given up
  std::string abort;    // name of the row
  std::string outcome;  // done, exited with a value, declined, or the exception as "Type: message"
  std::string state;    // the variables afterwards, with their types
};

class Recording : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!Py_IsInitialized()) Py_InitializeEx(0);
    if (!runtime::import_numpy()) {
      PyErr_Print();
      FAIL() << "numpy cannot be imported; set PYTHONPATH to the site-packages of the virtual environment";
    }
  }

  void SetUp() override {
    helper_ = Ref::steal(PyDict_New());
    PyDict_SetItemString(helper_.get(), "__builtins__", PyEval_GetBuiltins());
    Ref done = Ref::steal(PyRun_String(helper_source, Py_file_input, helper_.get(), helper_.get()));
    if (!done) PyErr_Print();
    ASSERT_TRUE(done);
  }

  /// `setup` binds the variables, as module code; `statement` is the region; `names` are the parameters of the function
  /// that holds it: what else it stores to is unbound at entry.
  Ran python(const std::string& setup, const std::string& names, const std::string& statement) {
    Ref pair = call("run", Py_BuildValue("(sss)", setup.c_str(), names.c_str(), statement.c_str()));
    Ran run;
    if (pair) {
      run.outcome = text(PyTuple_GET_ITEM(pair.get(), 0));
      run.state = text(PyTuple_GET_ITEM(pair.get(), 1));
    }
    return run;
  }

  Ran traced(const std::string& setup, const std::string& names, const std::string& statement) {
    Ran run;
    Ref made =
        call("make", Py_BuildValue("(ssss)", setup.c_str(), names.c_str(), statement.c_str(), "return locals()"));
    if (!made) return run;
    PyObject* env = PyTuple_GET_ITEM(made.get(), 0);
    Ref code = Ref::steal(PyObject_GetAttrString(PyDict_GetItemString(env, "f"), "__code__"));
    Ref where = call("region", Py_BuildValue("(Os)", code.get(), statement.c_str()));
    if (!where) return run;

    Region region;
    region.code = reinterpret_cast<PyCodeObject*>(code.get());
    region.begin = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(where.get(), 0)));
    region.end = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(where.get(), 1)));
    const std::vector<pragma::Placed> placed = place(statement);
    region.pragmas = placed;

    std::vector<PyObject*> locals;
    for (Py_ssize_t i = 0; i < region.code->co_nlocalsplus; ++i) {
      const std::string name = text(PyTuple_GET_ITEM(region.code->co_localsplusnames, i));
      const bool parameter = (" " + names + " ").find(" " + name + " ") != std::string::npos;
      locals.push_back(parameter ? Py_XNewRef(PyDict_GetItemString(env, name.c_str())) : nullptr);
    }
    const runtime::Scope scope{region.code, locals.data(), env, PyEval_GetBuiltins()};
    try {
      Result result = trace(region, scope);
      run.graph = ir::print(*result.graph);
      EXPECT_EQ(ir::verify(*result.graph), "") << run.graph;
      EXPECT_EQ(ir::print(*ir::parse(run.graph)), run.graph);
      launch(std::move(result), scope, names, env, run);
    } catch (const Abort& abort) {
      run.abort = abort_name(abort.id);
      run.outcome = abort.message();
    }
    for (PyObject* value : locals) Py_XDECREF(value);
    return run;
  }

  /// Both ways; equal. Returns the traced run.
  Ran same(const std::string& setup, const std::string& names, const std::string& statement) {
    const Ran expected = python(setup, names, statement);
    Ran got = traced(setup, names, statement);
    EXPECT_EQ(got.outcome, expected.outcome) << statement << "\n" << got.graph;
    EXPECT_EQ(got.state, expected.state) << statement << "\n" << got.graph;
    return got;
  }

  /// Pragmas of the next statements: line (1 is the statement's first), text.
  std::vector<std::pair<int, std::string>> pragmas_;

 private:
  static std::string text(PyObject* o) {
    const char* s = o ? PyUnicode_AsUTF8(o) : nullptr;
    PyErr_Clear();
    return s ? s : "";
  }

  Ref call(const char* name, PyObject* stolen_arguments) {
    Ref arguments = Ref::steal(stolen_arguments);
    Ref value = Ref::steal(PyObject_Call(PyDict_GetItemString(helper_.get(), name), arguments.get(), nullptr));
    if (!value) PyErr_Print();
    EXPECT_TRUE(value) << name;
    return value;
  }

  std::vector<pragma::Placed> place(const std::string& statement) {
    std::vector<pragma::Placed> out;
    Ref loops = call("iterables", Py_BuildValue("(s)", statement.c_str()));
    for (const auto& [line, words] : pragmas_) {
      pragma::Placed p;
      p.pragma = pragma::parse(words);
      p.line = p.end_line = line + 1;
      Ref key = Ref::steal(PyLong_FromLong(line));
      if (PyObject* at = PyDict_GetItem(loops.get(), key.get())) {
        p.iter_line = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(at, 0)));
        p.iter_column = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(at, 1)));
        p.end_line = static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(at, 2)));
      }
      out.push_back(std::move(p));
    }
    return out;
  }

  void launch(Result result, const runtime::Scope& scope, const std::string& names, PyObject* env, Ran& run) {
    auto kernel = runtime::make_eval_kernel(*result.graph);
    const runtime::Specialization made(std::move(result.graph), std::move(result.signature), std::move(kernel), scope);
    runtime::Entry entry;
    ASSERT_TRUE(made.guards().match(scope, entry)) << made.guards().mismatch(scope);
    PyObject* returned = nullptr;
    const runtime::Launch outcome = made.launch(scope, entry, 1, &returned);
    Ref value = Ref::steal(returned);
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    Ref arrays = call("arrays", Py_BuildValue("(Os)", env, names.c_str()));
    run.state = text(arrays.get());
    switch (outcome) {
      case runtime::Launch::declined:
        run.outcome = "declined";
        break;
      case runtime::Launch::exited: {
        Ref words = call("describe", Py_BuildValue("(O)", value.get()));
        run.outcome = "exited " + text(words.get());
        break;
      }
      case runtime::Launch::raised: {
        PyErr_NormalizeException(&type, &error, &trace);
        Ref words = Ref::steal(PyObject_Str(error));
        run.outcome = std::string(reinterpret_cast<PyTypeObject*>(type)->tp_name) + ": " + text(words.get());
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
        break;
      }
      case runtime::Launch::done: {
        Ref after = Ref::steal(PyDict_New());
        for (Py_ssize_t i = 0; i < scope.code->co_nlocalsplus; ++i) {
          if (scope.localsplus[i]) {
            PyDict_SetItem(after.get(), PyTuple_GET_ITEM(scope.code->co_localsplusnames, i), scope.localsplus[i]);
          }
        }
        Ref words = call("describe_all", Py_BuildValue("(O)", after.get()));
        run.outcome = "done";
        run.state = text(words.get());
        break;
      }
    }
  }

  Ref helper_;
};

}  // namespace appy::trace::testing
