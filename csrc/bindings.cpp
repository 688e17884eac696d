// The Python module: names and types only. What the arguments may be is checked in Python, before.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <memory>
#include <system_error>

#include "dispatch.h"
#include "draws.h"
#include "environment.h"
#include "file.h"
#include "fill.h"
#include "gemm.h"
#include "memory.h"
#include "normal_cdf.h"
#include "orthogonal.h"
#include "sampler.h"
#include "scalar_math.h"
#include "time_step_bias.h"
#include "xorshift.h"

namespace py = pybind11;
using namespace fanin;

namespace {

constexpr std::pair<const char*, Dtype> DTYPE_NAMES[] = {{"float64", Dtype::float64},
                                                         {"float32", Dtype::float32},
                                                         {"float16", Dtype::float16},
                                                         {"bfloat16", Dtype::bfloat16},
                                                         {"float8_e4m3fn", Dtype::float8_e4m3fn},
                                                         {"float8_e5m2", Dtype::float8_e5m2}};

Dtype dtype_of(const std::string& name) {
  for (const auto& [known, dtype] : DTYPE_NAMES) {
    if (name == known) return dtype;
  }
  throw std::invalid_argument("unknown dtype " + name);
}

std::string name_of(Dtype dtype) {
  for (const auto& [name, known] : DTYPE_NAMES) {
    if (dtype == known) return name;
  }
  return {};
}

using Sizes = std::vector<uint64_t>;

// Ctrl-C, on the thread that called: raises what the signal's Python handler raises.
void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

// The generator by itself, as the textbook has it: a 53-bit uniform, then Box-Muller with its
// cosine.
class Xorshift64Star {
 public:
  explicit Xorshift64Star(uint64_t state) : state_(state) {
    if (state == 0) throw std::invalid_argument("state = 0 is the one state that never changes");
  }
  uint64_t state() const { return state_; }
  uint64_t next_u64() {
    state_ = step(state_);
    return output(state_);
  }
  double uniform() { return static_cast<double>(next_u64() >> 11) * 0x1p-53; }
  double normal() {
    // The float64 kernel of a standard normal gives the cosine first.
    static const Sampler standard = Sampler::normal(0, 1, Dtype::float64);
    double value;
    Lanes lanes = {};
    lanes.state[0] = state_;
    lanes.origin[0] = reinterpret_cast<char*>(&value);
    lanes.end[0] = sizeof value;
    const IeeeEnvironment environment;
    kernels().kernels[static_cast<int>(Distribution::normal)][static_cast<int>(Dtype::float64)](
        standard.parameters(), lanes);
    state_ = step(step(state_));
    return value;
  }
  void jump(uint64_t n) { state_ = fanin::jump(state_, n); }

 private:
  uint64_t state_;
};

// IeeeEnvironment for a `with` block of Python.
class Environment {
 public:
  Environment& enter() {
    environment_ = std::make_unique<IeeeEnvironment>();
    return *this;
  }
  void exit(const py::args&) { environment_.reset(); }

 private:
  std::unique_ptr<IeeeEnvironment> environment_;
};

// The region of a matrix of that shape that begins at `start` and has the array's shape.
void fill_array(const Sampler& sampler, uint64_t position, py::array& out, Sizes shape, Sizes start,
                int threads) {
  const Region region{std::move(shape), std::move(start),
                      Sizes(out.shape(), out.shape() + out.ndim()),
                      std::vector<int64_t>(out.strides(), out.strides() + out.ndim())};
  char* const address = static_cast<char*>(out.mutable_data());
  const py::gil_scoped_release release;
  fill(sampler, position, region, address, threads, check_signals);
}

// A row of `out`, which is C-contiguous, for each of `firsts`.
void draws_to_array(uint64_t position, const py::array_t<uint64_t>& firsts,
                    py::array_t<uint64_t>& out, int threads) {
  const uint64_t rows = out.shape(0), count = out.shape(1);
  const uint64_t* from = firsts.data();
  uint64_t* to = out.mutable_data();
  const py::gil_scoped_release release;
  draws(position, from, rows, count, to, threads, check_signals);
}

using Indices = py::array_t<int64_t, py::array::c_style>;
using PlacesArgument = std::pair<Indices, Indices>;

Places places_of(const PlacesArgument& argument) {
  const auto& [index, offset] = argument;
  return {index.data(), offset.data(), static_cast<size_t>(index.size())};
}

void fill_orthogonal_memory(uint64_t position, uint64_t short_side, uint64_t long_side, double gain,
                            const std::string& dtype, const PlacesArgument& matrices,
                            const PlacesArgument& vectors, const PlacesArgument& components,
                            uintptr_t address, int threads) {
  const OrthogonalRegion region{short_side, long_side, places_of(matrices), places_of(vectors),
                                places_of(components)};
  const Dtype known = dtype_of(dtype);
  const py::gil_scoped_release release;
  fill_orthogonal(position, region, gain, known, reinterpret_cast<char*>(address), threads,
                  check_signals);
}

// C = A B; all C-contiguous.
template <class T>
void multiply_arrays(const py::array_t<T>& a, const py::array_t<T>& b, py::array_t<T>& c,
                     int threads) {
  const size_t rows = c.shape(0), columns = c.shape(1), depth = a.shape(1);
  const T *from_a = a.data(), *from_b = b.data();
  T* to = c.mutable_data();
  const py::gil_scoped_release release;
  multiply(rows, columns, depth, from_a, from_b, to, threads, check_signals);
}

using TensorArgument = std::tuple<uint64_t, Sizes, std::vector<const Part*>>;

using ProgressArgument = std::optional<std::function<void(uint64_t)>>;

std::vector<StoredTensor> tensors_of(const std::vector<TensorArgument>& arguments) {
  std::vector<StoredTensor> tensors;
  for (const auto& [offset, shape, parts] : arguments) tensors.push_back({offset, shape, parts});
  return tensors;
}

Progress progress_of(const ProgressArgument& progress) {
  return [&progress](uint64_t bytes) {
    check_signals();
    if (progress) (*progress)(bytes);
  };
}

void write_to_file(int file, const std::vector<TensorArgument>& arguments, int threads,
                   bool to_disk, const ProgressArgument& progress) {
  const std::vector<StoredTensor> tensors = tensors_of(arguments);
  const py::gil_scoped_release release;
  write_tensors(file, tensors, threads, to_disk, progress_of(progress));
}

using DifferenceResult = std::tuple<size_t, uint64_t, py::bytes, py::bytes>;

std::optional<DifferenceResult> compare_with_file(int file,
                                                  const std::vector<TensorArgument>& arguments,
                                                  int threads, const ProgressArgument& progress) {
  const std::vector<StoredTensor> tensors = tensors_of(arguments);
  std::optional<Difference> difference;
  {
    const py::gil_scoped_release release;
    difference = compare_tensors(file, tensors, threads, progress_of(progress));
  }
  if (!difference) return std::nullopt;
  return DifferenceResult(difference->tensor, difference->element, difference->found,
                          difference->expected);
}

void raise_os_error(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
  }
}

}  // namespace

PYBIND11_MODULE(_core, m, py::mod_gil_not_used()) {
  kernels();  // a wrong FANIN_SIMD is an ImportError
  py::register_exception_translator([](std::exception_ptr pointer) {
    if (pointer) raise_os_error(pointer);
  });

  m.attr("STREAM_VERSION") = STREAM_VERSION;
  m.attr("PERIOD") = PERIOD;

  py::class_<Xorshift64Star>(m, "Xorshift64Star", py::is_final())
      .def(py::init<uint64_t>(), py::arg("state"))
      .def_property_readonly("state", &Xorshift64Star::state)
      .def("next_u64", &Xorshift64Star::next_u64)
      .def("uniform", &Xorshift64Star::uniform)
      .def("normal", &Xorshift64Star::normal)
      .def("jump", &Xorshift64Star::jump, py::arg("n"));

  py::class_<Sampler>(m, "Sampler", py::is_final())
      .def_static(
          "constant",
          [](double value, const std::string& dtype) {
            return Sampler::constant(value, dtype_of(dtype));
          },
          py::arg("value"), py::arg("dtype"))
      .def_static(
          "uniform",
          [](double low, double high, const std::string& dtype) {
            return Sampler::uniform(low, high, dtype_of(dtype));
          },
          py::arg("low"), py::arg("high"), py::arg("dtype"))
      .def_static(
          "normal",
          [](double mean, double std, const std::string& dtype) {
            return Sampler::normal(mean, std, dtype_of(dtype));
          },
          py::arg("mean"), py::arg("std"), py::arg("dtype"))
      .def_static(
          "truncated_normal",
          [](double mean, double std, double low_sigma, double high_sigma, double low, double high,
             const std::string& dtype) {
            return Sampler::truncated_normal(mean, std, low_sigma, high_sigma, low, high,
                                             dtype_of(dtype));
          },
          py::arg("mean"), py::arg("std"), py::arg("low_sigma"), py::arg("high_sigma"),
          py::arg("low"), py::arg("high"), py::arg("dtype"))
      .def_static(
          "time_step_bias",
          [](double low, double high, double floor, const std::string& dtype) {
            return Sampler::time_step_bias(low, high, floor, dtype_of(dtype));
          },
          py::arg("low"), py::arg("high"), py::arg("floor"), py::arg("dtype"))
      .def_property_readonly("dtype",
                             [](const Sampler& sampler) { return name_of(sampler.dtype()); })
      .def("draws", &Sampler::draws, py::arg("elements"));

  py::class_<Part>(m, "Part", py::is_final())
      .def(py::init([](const Sampler& sampler, uint64_t position, Sizes shape, Sizes start,
                       Sizes extent, Sizes tensor_start, Sizes tensor_step) {
             return Part{sampler,
                         position,
                         std::move(shape),
                         std::move(start),
                         std::move(extent),
                         std::move(tensor_start),
                         std::move(tensor_step)};
           }),
           py::arg("sampler"), py::arg("position"), py::arg("shape"), py::arg("start"),
           py::arg("extent"), py::arg("tensor_start"), py::arg("tensor_step"));

  py::class_<Environment>(m, "IeeeEnvironment", py::is_final())
      .def(py::init<>())
      .def("__enter__", &Environment::enter, py::return_value_policy::reference_internal)
      .def("__exit__", &Environment::exit);

  m.def("fill", &fill_array, py::arg("sampler"), py::arg("position"), py::arg("out"),
        py::arg("shape"), py::arg("start"), py::arg("threads"));
  m.def("draws", &draws_to_array, py::arg("position"), py::arg("firsts").noconvert(),
        py::arg("out").noconvert(), py::arg("threads"));
  m.def("fill_orthogonal", &fill_orthogonal_memory, py::arg("position"), py::arg("short_side"),
        py::arg("long_side"), py::arg("gain"), py::arg("dtype"), py::arg("matrices"),
        py::arg("vectors"), py::arg("components"), py::arg("address"), py::arg("threads"));
  m.def("multiply", &multiply_arrays<float>, py::arg("a").noconvert(), py::arg("b").noconvert(),
        py::arg("c").noconvert(), py::arg("threads"));
  m.def("multiply", &multiply_arrays<double>, py::arg("a").noconvert(), py::arg("b").noconvert(),
        py::arg("c").noconvert(), py::arg("threads"));
  m.def("write_tensors", &write_to_file, py::arg("fd"), py::arg("tensors"), py::arg("threads"),
        py::arg("to_disk"), py::arg("progress") = py::none());
  m.def("compare_tensors", &compare_with_file, py::arg("fd"), py::arg("tensors"),
        py::arg("threads"), py::arg("progress") = py::none());

  m.def(
      "advise_huge_pages",
      [](py::array& out) {
        char* const begin = static_cast<char*>(out.mutable_data());
        const auto bytes = static_cast<size_t>(out.nbytes());
        if (untouched(begin, bytes)) advise_huge_pages(begin, bytes);
      },
      py::arg("out"));
  m.def(
      "normal_cdf",
      [](double x) {
        const IeeeEnvironment environment;
        return normal_cdf(x);
      },
      py::arg("x"));
  m.def(
      "truncated_normal_moments",
      [](double low, double high) {
        const IeeeEnvironment environment;
        const Moments moments = truncated_normal_moments(low, high);
        return std::make_pair(moments.mean, moments.std);
      },
      py::arg("low"), py::arg("high"));
  m.def(
      "logarithm",
      [](double x) {
        const IeeeEnvironment environment;
        return logarithm(x);
      },
      py::arg("x"));
  m.def(
      "time_step_bias_moments",
      [](double low, double high, double floor) {
        const IeeeEnvironment environment;
        const Moments moments = time_step_bias_moments(low, high, floor);
        return std::make_pair(moments.mean, moments.std);
      },
      py::arg("low"), py::arg("high"), py::arg("floor"));
  m.def("simd", [] { return std::string(kernels().name); });
  m.def("simd_names", &supported_simd);
}
