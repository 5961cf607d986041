// Waiting for the interpreter's lock in a process that may be ending.
//
// When Python ends, it does not wait for daemon threads: one that asks for the lock afterwards is
// ended there (up to Python 3.13) by pthread_exit. glibc unwinds its stack with an exception of its
// own, and neither a destructor nor the functions of nanobind that call ours let one pass: the
// process aborted. So such a thread sleeps instead, until the process has ended.
#pragma once

#include <chrono>
#include <thread>

#include <nanobind/nanobind.h>

namespace hammemo {

// Call a function of Python's C API that may wait for the lock. It throws no exception: what is
// caught is the end of the thread.
template <class Call>
auto surviving_exit(const Call& call) {
    try {
        return call();
    } catch (...) {
        for (;;) {
            std::this_thread::sleep_for(std::chrono::hours(1));
        }
    }
}

// As long as this exists, other threads of Python run, and this one must not touch an object of
// Python.
class Released {
public:
    Released() : state_(PyEval_SaveThread()) {}
    ~Released() {
        surviving_exit([this] { PyEval_RestoreThread(state_); });
    }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

private:
    PyThreadState* state_;
};

}  // namespace hammemo
