// C++ without its library: headers, classes, static objects, threads, SCIF and mathematics.
#include "library.h"

#include <complex.h>
#include <dirent.h>
#include <dlfcn.h>
#include <endian.h>
#include <err.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fenv.h>
#include <getopt.h>
#include <grp.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <locale.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <scif.h>
#include <scif_ioctl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <syslog.h>
#include <tgmath.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#include <wctype.h>

// A name that a macro of a header would break.
namespace limits {
constexpr int PAGE_SIZE = 4096;
}

namespace {

int made, gone;

struct Object {
    Object() { made++; }
    ~Object() { gone++; }
};

Object global;

// An endpoint that closes itself.
class Endpoint {
public:
    explicit Endpoint(scif_epd_t epd) : epd_(epd) {}
    Endpoint() : Endpoint(scif_open()) {}
    Endpoint(const Endpoint &) = delete;
    ~Endpoint() { CHECK(scif_close(epd_) == 0); }
    operator scif_epd_t() const { return epd_; }

private:
    scif_epd_t epd_;
};

class Shape {
public:
    virtual ~Shape() {}
    virtual double area() const = 0;
};

class Circle : public Shape {
public:
    explicit Circle(double radius) : radius_(radius) {}
    double area() const override { return M_PI * pow(radius_, 2.0); }

private:
    double radius_;
};

template <typename T> T larger(T a, T b) {
    return a < b ? b : a;
}

Object &only_one() {
    static Object one;
    return one;
}

void *say_hello(void *argument) {
    scif_portID to = *static_cast<scif_portID *>(argument);
    Endpoint epd;
    CHECK(scif_connect(epd, &to) > 0);
    CHECK(scif_send(epd, const_cast<char *>("hello"), 6, SCIF_SEND_BLOCK) == 6);
    return nullptr;
}

void talk() {
    Endpoint listener;
    int port = scif_bind(listener, 0);
    scif_portID self = {0, static_cast<uint16_t>(port)}, peer;
    CHECK(port > 0 && scif_listen(listener, 1) == 0);
    CHECK(scif_get_nodeIDs(nullptr, 0, &self.node) >= 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, nullptr, say_hello, &self) == 0);
    scif_epd_t accepted;
    CHECK(scif_accept(listener, &peer, &accepted, SCIF_ACCEPT_SYNC) == 0);
    Endpoint epd(accepted);
    char text[6] = "";
    CHECK(scif_recv(epd, text, sizeof text, SCIF_RECV_BLOCK) == 6 && !strcmp(text, "hello"));
    CHECK(pthread_join(thread, nullptr) == 0);
}

} // namespace

int main() {
    CHECK(made == 1 && gone == 0 && limits::PAGE_SIZE == getpagesize());
    only_one();
    only_one();
    CHECK(made == 2);
    Shape *shape = new Circle(2.0);
    CHECK(fabs(shape->area() - 12.566370614359172) < 1e-12 && larger(1.5L, 2.5L) == 2.5L);
    delete shape;
    Object *objects = new Object[3];
    delete[] objects;
    CHECK(made == 5 && gone == 3 && isnan(nan("")) && signbit(-0.0));
    auto twice = [](int x) { return 2 * x; };
    CHECK(twice(21) == 42);
    talk();
    return finish("plusplus");
}
