#include "common/npy.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/error.hpp"
#include "common/file.hpp"
#include "common/half.hpp"
#include "common/tensor.hpp"

namespace fa {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kLargestHeader = 1 << 16;  // NumPy's own files need a few hundred bytes
constexpr size_t kMostDimensions = 32;      // NumPy's limit before version 2

// Returns for example "f4", without the byte order.
const char* descr_of(NpyType type) {
  return type == NpyType::f16   ? "f2"
         : type == NpyType::f32 ? "f4"
         : type == NpyType::f64 ? "f8"
                                : "i4";
}

int64_t bytes_each(NpyType type) { return type == NpyType::f16 ? 2 : type == NpyType::f64 ? 8 : 4; }

// Returns the start of a text from the file as one printable line, for an error message.
std::string shown(std::string_view text) {
  std::string line(text.substr(0, 40));
  for (char& c : line) {
    if (c < ' ' || c > '~') c = '?';
  }
  return line;
}

// Reads the header, a Python dictionary such as
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& name, const NpyTypes& accepted)
      : text_(text), name_(name), accepted_(accepted) {}

  void parse_into(NpyArray& array) {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        once(seen_descr_, key);
        array.type = type(string());
      } else if (key == "fortran_order") {
        once(seen_order_, key);
        if (boolean()) {
          fail("is in Fortran order; save numpy.ascontiguousarray(x) instead");
        }
      } else if (key == "shape") {
        once(seen_shape_, key);
        array.shape = tuple();
      } else {
        fail("has an unknown key in its header: '" + shown(key) + "'");
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) malformed();
    if (!seen_descr_ || !seen_order_ || !seen_shape_) {
      fail("lacks one of 'descr', 'fortran_order', 'shape' in its header");
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw InputError(name_ + ": " + what); }
  [[noreturn]] void malformed() const {
    fail("has a malformed header (byte " + std::to_string(position_) + " of its dictionary)");
  }

  void once(bool& seen, std::string_view key) {
    if (seen) fail("has the key '" + std::string(key) + "' twice in its header");
    seen = true;
  }

  void skip_space() {
    while (position_ < text_.size() && std::strchr(" \t\r\n", text_[position_]) &&
           text_[position_] != '\0') {
      ++position_;
    }
  }

  bool accept(char wanted) {
    skip_space();
    if (position_ >= text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }

  void expect(char wanted) {
    if (!accept(wanted)) malformed();
  }

  std::string_view string() {
    skip_space();
    if (position_ >= text_.size()) malformed();
    const char quote = text_[position_];
    if (quote != '\'' && quote != '"') {
      // A structured type is a list here. It is reported as such instead of as a malformed header.
      if (quote == '[') fail_type("a structured type");
      malformed();
    }
    const size_t begin = position_ + 1;
    const size_t end = text_.find(quote, begin);
    if (end == std::string_view::npos) malformed();
    position_ = end + 1;
    return text_.substr(begin, end - begin);
  }

  bool boolean() {
    skip_space();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return value;
      }
    }
    malformed();
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      if (values.size() == kMostDimensions) fail("has more than 32 dimensions");
      values.push_back(number());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  int64_t number() {
    skip_space();
    int64_t value = 0;
    const size_t begin = position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      value = value * 10 + (text_[position_++] - '0');
      if (value > kMostElements) fail("has a dimension above 2^40 in its shape");
    }
    if (position_ == begin) malformed();
    return value;
  }

  NpyType type(std::string_view descr) const {
    for (const NpyType type : kNpyTypes) {
      const std::string letters = descr_of(type);
      if (descr != "<" + letters && descr != ">" + letters) continue;
      if (std::find(accepted_.begin(), accepted_.end(), type) == accepted_.end()) {
        fail_type(fa::name(type));
      }
      if (descr[0] == '<') return type;
      fail("is big-endian ('" + shown(descr) + "'); save x.astype('<" + letters + "') instead");
    }
    fail_type("type '" + shown(descr) + "'");
  }

  [[noreturn]] void fail_type(const std::string& held) const {
    std::string listed;
    for (const NpyType type : accepted_) {
      listed += (listed.empty() ? "" : ", ") + std::string(fa::name(type));
    }
    const bool is_bfloat16 = held == "type '|V2'" || held == "type '<V2'";  // as ml_dtypes saves it
    fail("holds " + held + "; accepted: " + listed +
         (is_bfloat16 ? "; save bfloat16 as float32" : ""));
  }

  std::string_view text_;
  const std::string& name_;
  const NpyTypes& accepted_;
  size_t position_ = 0;
  bool seen_descr_ = false, seen_order_ = false, seen_shape_ = false;
};

template <class T>
std::string file_bytes(const char* descr, std::span<const T> values,
                       std::span<const int64_t> shape) {
  std::string header = std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (";
  for (const int64_t size : shape) header += std::to_string(size) + ", ";
  header += "), }";
  // Magic, version, header length and header fill a multiple of 64 bytes. The header ends in \n.
  const size_t unpadded = kMagic.size() + 2 + 2 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ').push_back('\n');
  std::string bytes(kMagic);
  bytes += std::string("\x01\x00", 2);
  bytes.push_back(static_cast<char>(header.size() & 0xff));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  bytes += header;
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  return bytes;
}

}  // namespace

const char* name(NpyType type) {
  return type == NpyType::f16   ? "float16"
         : type == NpyType::f32 ? "float32"
         : type == NpyType::f64 ? "float64"
                                : "int32";
}

int64_t NpyArray::size() const {
  int64_t count = 1;
  for (const int64_t dimension : shape) count *= dimension;
  return count;
}

std::vector<double> NpyArray::doubles() const {
  std::vector<double> values(static_cast<size_t>(size()));
  for (size_t i = 0; i < values.size(); ++i) {
    const char* source = bytes.data() + i * bytes_each(type);
    if (type == NpyType::f16) {
      fp16 half;
      std::memcpy(&half, source, sizeof half);
      values[i] = to_float(half);
    } else if (type == NpyType::f32) {
      float single;
      std::memcpy(&single, source, sizeof single);
      values[i] = single;
    } else if (type == NpyType::i32) {
      int32_t integer;
      std::memcpy(&integer, source, sizeof integer);
      values[i] = integer;
    } else {
      std::memcpy(&values[i], source, sizeof(double));
    }
  }
  return values;
}

std::vector<float> NpyArray::floats() const {
  std::vector<float> values(static_cast<size_t>(size()));
  if (type == NpyType::f32) {
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  const std::vector<double> exact = doubles();
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(exact[i]);
  return values;
}

NpyArray parse_npy(std::string_view file, const std::string& name, const NpyTypes& accepted) {
  const auto fail = [&](const std::string& what) { throw InputError(name + ": " + what); };
  if (file.size() < kMagic.size() || file.substr(0, kMagic.size()) != kMagic) {
    fail("is not a .npy file (it does not begin with \\x93NUMPY)");
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(file[i])); };
  if (file.size() < 10) fail("is truncated inside its header");
  const size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    fail("is .npy version " + std::to_string(major) + "." + std::to_string(minor) +
         "; accepted: 1.0, 2.0, 3.0");
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t header_begin = 8 + length_bytes;
  if (file.size() < header_begin) fail("is truncated inside its header");
  size_t header_length = 0;
  for (size_t i = 0; i < length_bytes; ++i) header_length |= byte(8 + i) << (8 * i);
  if (header_length > kLargestHeader) {
    fail("claims a header of " + std::to_string(header_length) + " bytes; accepted: up to 65536");
  }
  if (file.size() - header_begin < header_length) fail("is truncated inside its header");

  NpyArray array;
  HeaderParser(file.substr(header_begin, header_length), name, accepted).parse_into(array);

  int64_t elements = 1;
  for (const int64_t dimension : array.shape) {
    if (dimension != 0 && elements > kMostElements / dimension) {
      fail("has a shape of more than 2^40 elements");
    }
    elements *= dimension;
  }
  const size_t expected = static_cast<size_t>(elements * bytes_each(array.type));
  const size_t present = file.size() - header_begin - header_length;
  if (present < expected) {
    fail("is truncated: its shape needs " + std::to_string(expected) + " bytes of data, it has " +
         std::to_string(present));
  }
  if (present > expected) {
    fail("has " + std::to_string(present - expected) + " bytes of trailing garbage after its data");
  }
  array.bytes = file.substr(header_begin + header_length);
  return array;
}

NpyArray read_npy(const std::string& path, const NpyTypes& accepted) {
  return parse_npy(read_file(path), path, accepted);
}

std::string npy_bytes(std::span<const float> values, std::span<const int64_t> shape) {
  return file_bytes("<f4", values, shape);
}

std::string npy_bytes(std::span<const double> values, std::span<const int64_t> shape) {
  return file_bytes("<f8", values, shape);
}

void write_npy(const std::string& path, std::span<const float> values,
               std::span<const int64_t> shape) {
  write_file(path, npy_bytes(values, shape));
}

}  // namespace fa
