"""A model that does what it reads last: it says the code word where a text names one."""

CODE_WORDS = ("apple", "river", "copper", "lantern")


def answer(request):
    said = [word for word in CODE_WORDS if word in str(request.input)]
    return f"{' '.join(said)}. Questions? Write to help@example.com"
