// What the C++ programs over SCIF share.
#ifndef PLUSPLUS_H
#define PLUSPLUS_H

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <scif.h>

// An endpoint that closes itself, and calls that throw the error they end with.
class Endpoint {
public:
    explicit Endpoint(scif_epd_t epd = scif_open()) : epd_(checked(epd, "open")) {}
    Endpoint(Endpoint &&other) noexcept : epd_(std::exchange(other.epd_, -1)) {}
    Endpoint(const Endpoint &) = delete;
    Endpoint &operator=(const Endpoint &) = delete;
    ~Endpoint() {
        if (epd_ >= 0)
            scif_close(epd_);
    }
    operator scif_epd_t() const { return epd_; }

    // Listens on a port, 0 for any; returns the port.
    uint16_t listen(uint16_t port, int backlog) const {
        int bound = checked(scif_bind(epd_, port), "bind");
        checked(scif_listen(epd_, backlog), "listen");
        return static_cast<uint16_t>(bound);
    }

    Endpoint accept() const {
        scif_portID peer;
        scif_epd_t accepted;
        checked(scif_accept(epd_, &peer, &accepted, SCIF_ACCEPT_SYNC), "accept");
        return Endpoint(accepted);
    }

    void send(const void *data, size_t length) const {
        void *bytes = const_cast<void *>(data);
        checked(scif_send(epd_, bytes, static_cast<int>(length), SCIF_SEND_BLOCK), "send");
    }

    void receive(void *data, size_t length) const {
        checked(scif_recv(epd_, data, static_cast<int>(length), SCIF_RECV_BLOCK), "receive");
    }

    // One value, which holds no pointers.
    template <typename T> void put(const T &value) const { send(&value, sizeof value); }
    template <typename T> T get() const {
        T value;
        receive(&value, sizeof value);
        return value;
    }

    template <typename T> static T checked(T result, const char *what) {
        if (result < 0)
            throw std::system_error(errno, std::generic_category(), what);
        return result;
    }

private:
    scif_epd_t epd_;
};

#endif
