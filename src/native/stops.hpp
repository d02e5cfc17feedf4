// What a caller of Python gives to stop a run, and runs under it.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

#include "clock.hpp"

namespace anytime {

namespace nb = nanobind;

// What a caller gave to stop a run: nothing, a StopFlag, or an object with is_set() (a threading.Event).
class Stop final : public Poll {
 public:
  explicit Stop(nb::handle stop) {
    if (stop.is_none() || nb::try_cast(stop, flag_)) return;
    is_set_ = nb::getattr(stop, "is_set");
  }

  Watch watch(double deadline) { return Watch(deadline, flag_, is_set_.is_valid() ? this : nullptr); }
  // The exception that asking the object raised, if any; with the interpreter's lock held.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  bool ask() noexcept override {
    const nb::gil_scoped_acquire locked;
    try {
      const int answer = PyObject_IsTrue(is_set_().ptr());
      if (answer < 0) nb::raise_python_error();
      return answer != 0;
    } catch (...) {
      error_ = std::current_exception();
      return true;
    }
  }

  StopFlag* flag_ = nullptr;
  nb::object is_set_;
  std::exception_ptr error_;
};

// Runs `run` without the interpreter's lock, under what may cut it short.
template <class Run>
bool watched(double deadline, nb::handle stop, Run&& run) {
  Stop asked(stop);
  const Watch watch = asked.watch(deadline);
  bool finished;
  {
    const nb::gil_scoped_release unlocked;
    finished = run(watch);
  }
  asked.rethrow();
  return finished;
}

}  // namespace anytime
