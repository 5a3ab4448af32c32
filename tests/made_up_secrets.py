"""Made-up secrets of many kinds, and texts that only look as if they held one. No value is a key of anybody's."""

from __future__ import annotations

import base64
import json
import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits

Make = Callable[[random.Random], str]
ALNUM, HEX, SAFE = ascii_letters + digits, digits + "abcdef", ascii_letters + digits + "_-"
SIGNS = ALNUM + "!@#%^*-_=+.?"
OF_A_KIND = 20


def draw_from(alphabet: str, length: int, before: str = "", after: str = "") -> Make:
    return lambda draw: before + "".join(draw.choices(alphabet, k=length)) + after


def _password(draw: random.Random) -> str:
    """Return eight to sixteen characters, with a digit and letters among them."""
    return "".join(draw.choices(SIGNS, k=draw.randint(6, 14))) + draw.choice(ascii_lowercase) + draw.choice(digits)


def _base64(length: int) -> Make:
    return lambda draw: base64.b64encode(draw.randbytes(length)).decode()


def _url_safe(length: int) -> Make:
    return lambda draw: base64.urlsafe_b64encode(draw.randbytes(length)).decode().rstrip("=")


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def _jwt(draw: random.Random) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": str(draw.randrange(10**9)), "iat": draw.randrange(10**9)})
    body = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{body}.{_url_safe(32)(draw)}"


def _pem(kind: str) -> Make:
    def make(draw: random.Random) -> str:
        lines = "\n".join(base64.b64encode(draw.randbytes(48)).decode() for _ in range(6))
        return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"

    return make


def _join(*parts: Make | str) -> Make:
    return lambda draw: "".join(part if isinstance(part, str) else part(draw) for part in parts)


# What stands around a key that its form tells.
AROUND = (
    "{}",
    "key {}",
    'client = Client("{}")',
    "the one that works is {}.",
    '{{"id": 7, "v": "{}"}}',
    "I used {} for this",
    "export X={}",
    "- {}\n- next",
)


def _name_forms(*forms: str) -> tuple[str, ...]:
    return forms


SEEN: Mapping[str, tuple[Make, tuple[str, ...]]] = {
    "OpenAI": (draw_from(ALNUM, 48, "sk-"), AROUND),
    "OpenAI, of a project": (draw_from(SAFE, 120, "sk-proj-"), AROUND),
    "Anthropic": (draw_from(SAFE, 95, "sk-ant-api03-"), AROUND),
    "Hugging Face": (draw_from(ascii_letters, 34, "hf_"), AROUND),
    "GitHub": (draw_from(ALNUM, 36, "ghp_"), AROUND),
    "GitHub, fine-grained": (_join(draw_from(ALNUM, 22, "github_pat_"), draw_from(ALNUM, 59, "_")), AROUND),
    "GitLab": (draw_from(SAFE, 20, "glpat-"), AROUND),
    "npm": (draw_from(ALNUM, 36, "npm_"), AROUND),
    "PyPI": (draw_from(SAFE, 150, "pypi-AgEIcHlwaS5vcmc"), AROUND),
    "SendGrid": (_join(draw_from(SAFE, 22, "SG."), draw_from(SAFE, 43, ".")), AROUND),
    "AWS, id": (draw_from(ascii_uppercase + digits, 16, "AKIA"), AROUND),
    "AWS, secret": (
        draw_from(ALNUM + "+/", 40),
        _name_forms("aws_secret_access_key = {}", "AWS_SECRET_ACCESS_KEY={}", '"SecretAccessKey": "{}"'),
    ),
    "Google": (draw_from(SAFE, 35, "AIza"), AROUND),
    "Google, OAuth": (draw_from(SAFE, 28, "GOCSPX-"), AROUND),
    "Azure, storage": (
        _base64(64),
        _name_forms(
            "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={};EndpointSuffix=x", "AZURE_STORAGE_KEY={}"
        ),
    ),
    "Azure, Entra": (_join(draw_from(ALNUM, 3), "8Q~", draw_from(ALNUM + "_-.~", 33), draw_from(ALNUM, 1)), AROUND),
    "Azure, OpenAI": (draw_from(HEX, 32), _name_forms("AZURE_OPENAI_API_KEY={}", "api-key: {}", "AZURE_OPENAI_KEY={}")),
    "Vault": (draw_from(ALNUM, 95, "hvs."), AROUND),
    "Vault, old": (draw_from(ALNUM, 24, "s."), _name_forms("VAULT_TOKEN={}", "X-Vault-Token: {}")),
    "Databricks": (draw_from(HEX, 32, "dapi"), AROUND),
    "Groq": (draw_from(ALNUM, 52, "gsk_"), AROUND),
    "Weights & Biases": (
        draw_from(HEX, 40),
        _name_forms("WANDB_API_KEY={}", "export WANDB_API_KEY='{}'", "wandb_api_key: {}"),
    ),
    "Slack": (_join("xoxb-", draw_from(digits, 12), "-", draw_from(ALNUM, 24)), AROUND),
    "Slack, webhook": (
        _join(
            "https://hooks.slack.com/services/T",
            draw_from(ascii_uppercase + digits, 9),
            "/B",
            draw_from(ascii_uppercase + digits, 9),
            "/",
            draw_from(ALNUM, 24),
        ),
        AROUND,
    ),
    "Stripe": (draw_from(ALNUM, 24, "sk_live_"), AROUND),
    "Twilio": (draw_from(HEX, 32), _name_forms("TWILIO_AUTH_TOKEN={}", "auth_token = '{}'", '"authToken": "{}"')),
    "Telegram": (_join(draw_from("123456789", 10), ":AA", draw_from(SAFE, 33)), AROUND),
    "DigitalOcean": (draw_from(HEX, 64, "dop_v1_"), AROUND),
    "Shopify": (draw_from(HEX, 32, "shpat_"), AROUND),
    "JSON Web Token": (_jwt, AROUND),
    "private key": (_pem("RSA "), ("{}", "key:\n{}\n")),
    "login in a URL": (
        _join("postgres://app:", draw_from(ALNUM, 14), "@db.internal:5432/main"),
        ("{}", "DATABASE_URL={}"),
    ),
    "DB_PASSWORD": (
        _password,
        _name_forms("DB_PASSWORD={}", "export DB_PASSWORD='{}'", "DB_PASSWORD: {}", "- name: DB_PASSWORD\n  value: {}"),
    ),
    "password in JSON": (_password, _name_forms('{{"password": "{}"}}', '"dbPassword": "{}",', "{{'passwd': '{}'}}")),
    "password in prose": (
        _password,
        _name_forms("the password is {}", "Das Passwort lautet {} ", "password: {}", "Use the password {} to log in"),
    ),
    "API key in a header": (
        draw_from(ALNUM, 32),
        _name_forms("X-API-Key: {}", "-H 'x-api-key: {}'", '"Ocp-Apim-Subscription-Key": "{}"'),
    ),
    "Authorization: Bearer": (
        draw_from(ALNUM, 40),
        _name_forms("Authorization: Bearer {}", '-H "Authorization: Bearer {}"', "authorization: bearer {}"),
    ),
    "Authorization: Basic": (
        _join("Basic ", lambda draw: base64.b64encode(f"admin:{_password(draw)}".encode()).decode()),
        ("Authorization: {}",),
    ),
    "client secret": (
        draw_from(SAFE, 40),
        _name_forms("client_secret={}", '"clientSecret": "{}"', "OAUTH_CLIENT_SECRET={}"),
    ),
    "access token": (
        draw_from(ALNUM, 30),
        _name_forms("access_token={}&x=1", '"access_token": "{}"', "ACCESS_TOKEN={}"),
    ),
    "Square": (draw_from(SAFE, 60, "EAAA"), _name_forms("SQUARE_ACCESS_TOKEN={}", "square_token: {}")),
    "Artifactory": (
        draw_from(ALNUM, 69, "AKCp"),
        _name_forms("ARTIFACTORY_API_KEY={}", "X-JFrog-Art-Api: {}", "api key {}"),
    ),
    "Plaid": (_join("access-production-", _uuid), _name_forms("PLAID_ACCESS_TOKEN={}", '"access_token": "{}"')),
    "Fastly": (draw_from(SAFE, 32), _name_forms("Fastly-Key: {}", "FASTLY_API_TOKEN={}")),
    "Cloudflare": (draw_from(SAFE, 40), _name_forms("CLOUDFLARE_API_TOKEN={}", "CF_API_KEY: {}")),
    "Adafruit": (draw_from(ALNUM, 28, "aio_"), _name_forms("ADAFRUIT_IO_KEY={}", "io_key = '{}'")),
    "Duffel": (draw_from(SAFE, 43, "duffel_live_"), _name_forms("DUFFEL_ACCESS_TOKEN={}", "token = '{}'")),
    "EasyPost": (draw_from(ALNUM, 54, "EZAK"), _name_forms("EASYPOST_API_KEY={}", "easypost.api_key = '{}'")),
    "Shippo": (draw_from(HEX, 40, "shippo_live_"), AROUND),
    "Clojars": (
        draw_from(ascii_lowercase + digits, 60, "CLOJARS_"),
        _name_forms("CLOJARS_PASSWORD={}", "password: {}"),
    ),
    "Mistral": (draw_from(ALNUM, 32), _name_forms("MISTRAL_API_KEY={}", "Mistral(api_key='{}')")),
    "Cohere": (draw_from(ALNUM, 40), _name_forms("CO_API_KEY={}", "cohere.Client(token='{}')", "COHERE_API_KEY: '{}'")),
    "Deepgram": (draw_from(HEX, 40), _name_forms("DEEPGRAM_API_KEY={}", "Authorization: Token {}")),
    "Algolia": (draw_from(HEX, 32), _name_forms("ALGOLIA_ADMIN_KEY={}", "X-Algolia-API-Key: {}", 'adminKey: "{}"')),
    "Datadog": (draw_from(HEX, 40), _name_forms("DD_APP_KEY={}", "DD-APPLICATION-KEY: {}", "app_key: {}")),
    "PagerDuty": (draw_from(SAFE, 20), _name_forms("PAGERDUTY_TOKEN={}", "Authorization: Token token={}")),
    "Snyk": (_uuid, _name_forms("SNYK_TOKEN={}", "snyk_token: {}")),
    "Heroku": (_uuid, _name_forms("HEROKU_API_KEY={}", "HEROKU_API_KEY: {}")),
    "Jenkins": (
        draw_from(HEX, 32, "11"),
        _name_forms("JENKINS_API_TOKEN={}", "curl --user admin:{} https://ci.example.org"),
    ),
    "Rails": (draw_from(HEX, 128), _name_forms("SECRET_KEY_BASE={}", "secret_key_base: {}")),
    "Django": (
        draw_from(ascii_lowercase + digits + "!@#$%^&*(-_=+)", 50),
        _name_forms('SECRET_KEY = "{}"', "DJANGO_SECRET_KEY='{}'"),
    ),
    "Laravel": (_join("base64:", _base64(32)), _name_forms("APP_KEY={}", "'key' => '{}',")),
    "signing key of tokens": (
        _url_safe(48),
        _name_forms("JWT_SECRET={}", "jwt: {{ secret: '{}' }}", "JWT_SIGNING_KEY: {}"),
    ),
    "Redis": (_join("redis://:", draw_from(ALNUM, 20), "@cache:6379/0"), _name_forms("REDIS_URL={}", "{}")),
    "MongoDB": (_join("mongodb+srv://app:", draw_from(ALNUM, 16), "@c0.abc.mongodb.net/x"), ("{}", "uri: {}")),
    "connection string": (
        draw_from(ALNUM, 16),
        _name_forms("host=db user=app password={} dbname=x", "Server=db;Uid=sa;Pwd={};"),
    ),
    "netrc": (
        draw_from(ALNUM, 18),
        _name_forms("machine api.example.org login me password {}", "machine x\nlogin me\npassword {}\n"),
    ),
    "Kubernetes": (_base64(18), _name_forms("kind: Secret\ndata:\n  password: {}", "data:\n  db-password: {}")),
    "Terraform": (
        draw_from(SIGNS, 20),
        _name_forms('admin_password = "{}"', 'variable "db_password" {{ default = "{}" }}'),
    ),
    "environment of a container": (
        draw_from(ALNUM, 20),
        _name_forms("docker run -e POSTGRES_PASSWORD={} postgres", "ENV MYSQL_ROOT_PASSWORD {}"),
    ),
    "SMTP": (
        draw_from(ascii_lowercase, 16),
        _name_forms("SMTP_PASSWORD={}", "EMAIL_HOST_PASSWORD = '{}'", "MAIL_PASSWORD={}"),
    ),
    "SSH": (_pem("OPENSSH "), ("{}", "cat > id <<EOF\n{}\nEOF")),
    "EC": (_pem("EC "), ("{}", "PRIVATE_KEY='{}'")),
    "PKCS 8": (_pem(""), ("{}", '"private_key": "{}"')),
    "query": (
        _url_safe(24),
        _name_forms(
            "https://api.example.org/v1?api_key={}&q=a", "GET /x?token={} HTTP/1.1", "wss://h/?access_token={}"
        ),
    ),
    "command line": (
        draw_from(ALNUM, 24),
        _name_forms("tool --api-key {} --verbose", "tool --token={} run", "tool --password '{}'"),
    ),
    "XML": (draw_from(ALNUM, 14), _name_forms("<password>{}</password>", '<add key="DbPassword" value="{}"/>')),
    "SQL": (
        draw_from(ALNUM, 14),
        _name_forms("CREATE ROLE app WITH PASSWORD '{}'", "ALTER USER a SET PASSWORD = '{}'"),
    ),
    "chat": (
        draw_from(ALNUM, 12),
        _name_forms(
            "ok the new password for the wiki is {} please do not share it",
            "pw changed, password is now {}",
            "my password: {}",
        ),
    ),
    "JSON in JSON": (
        draw_from(ALNUM, 24),
        _name_forms(
            '{{"body": "{{\\"token\\": \\"{}\\", \\"api_key\\": \\"{}\\"}}"}}', '"{{\\"password\\":\\"{}\\"}}"'
        ),
    ),
    "Okta": (draw_from(SAFE, 40, "00"), _name_forms("Authorization: SSWS {}", "OKTA_API_TOKEN={}")),
    "PayPal": (draw_from(SAFE, 79, "E"), _name_forms("PAYPAL_SECRET={}", "PAYPAL_CLIENT_SECRET: {}")),
    "Mapbox": (_join("sk.eyJ1Ijoi", draw_from(ALNUM, 60), ".", draw_from(SAFE, 22)), AROUND),
    "Cloudinary": (
        _join("cloudinary://", draw_from(digits, 15), ":", draw_from(SAFE, 27), "@cloud"),
        _name_forms("{}", "CLOUDINARY_URL={}"),
    ),
    "Supabase": (_jwt, _name_forms("SUPABASE_SERVICE_ROLE_KEY={}", "service_role: {}")),
    "Ansible": (draw_from(ALNUM, 12), _name_forms("ansible_become_pass: {}", "ansible_ssh_pass={}")),
    "wireless network": (draw_from(ALNUM, 14), _name_forms('psk="{}"', "wifi password: {}")),
    "pgpass": (
        draw_from(ALNUM, 16),
        _name_forms(
            "db.example.org:5432:app:me:{}",
        ),
    ),
    "Docker": (
        lambda draw: base64.b64encode(f"me:{_password(draw)}".encode()).decode(),
        _name_forms(
            '{{"auths": {{"r.io": {{"auth": "{}"}}}}}}',
        ),
    ),
    "npmrc": (draw_from(HEX, 36), _name_forms("//registry.example.org/:_authToken={}", "_password={}")),
    "rclone": (
        draw_from(SAFE, 30),
        _name_forms(
            "[remote]\nuser = me\npass = {}",
        ),
    ),
    "Fernet": (_base64(32), _name_forms("AIRFLOW__CORE__FERNET_KEY={}", "fernet_key = {}")),
    "Grafana": (draw_from(ALNUM, 12), _name_forms("GF_SECURITY_ADMIN_PASSWORD={}", "- GF_SECURITY_ADMIN_PASSWORD={}")),
    "Spring": (_password, _name_forms("spring.datasource.password={}", "spring:\n  datasource:\n    password: {}")),
    "JDBC": (
        draw_from(ALNUM, 12),
        _name_forms("jdbc:mysql://h/db?user=a&password={}", "jdbc:sqlserver://h;user=sa;password={};"),
    ),
    "PHP": (draw_from(ALNUM, 12), _name_forms("define('DB_PASSWORD', '{}');", "$dbPass = '{}';")),
    "Go": (draw_from(ALNUM, 12), _name_forms('password := "{}"', 'const apiKey = "{}"', 'Password: "{}",')),
    "C#": (
        draw_from(ALNUM, 12),
        _name_forms(
            'new NetworkCredential("me", "{}")',
        ),
    ),
    "PowerShell": (draw_from(ALNUM, 12), _name_forms('ConvertTo-SecureString "{}" -AsPlainText', '$Password = "{}"')),
    "cookie": (draw_from(ALNUM, 32), _name_forms("Set-Cookie: sessionid={}; HttpOnly", "Cookie: session_token={}")),
    "mail in German": (_password, _name_forms("Ihr neues Passwort: {}", "Das Kennwort ist {} und gilt ab morgen")),
    "mail in Spanish": (_password, _name_forms("La contraseña es {}", "contraseña: {}")),
    "both of a login": (
        _password,
        _name_forms("Username: anna\nPassword: {}", "user anna / password {}", "login: anna, pass: {}"),
    ),
    "OpenRouter": (draw_from(HEX, 64, "sk-or-v1-"), AROUND),
}
"""Kinds that were looked at while the patterns were written, each with what stands around its values."""
UNSEEN: Mapping[str, tuple[Make, tuple[str, ...]]] = {
    "Zendesk": (draw_from(ALNUM, 40), _name_forms("ZENDESK_API_TOKEN={}", "zendesk_token: {}")),
    "Mattermost": (draw_from(ascii_lowercase + digits, 26), _name_forms("MATTERMOST_TOKEN={}", "mm_bot_token = '{}'")),
    "Confluent": (draw_from(ALNUM + "+/", 64), _name_forms("CONFLUENT_CLOUD_API_SECRET={}", "sasl.password={}")),
    "Nomad": (_uuid, _name_forms("NOMAD_TOKEN={}", "X-Nomad-Token: {}")),
    "Auth0": (draw_from(SAFE, 64), _name_forms("AUTH0_CLIENT_SECRET={}", "clientSecret: '{}',")),
    "Lob": (draw_from(HEX, 35, "live_"), AROUND),
    "Mailjet": (draw_from(HEX, 32), _name_forms("MJ_APIKEY_PRIVATE={}", "api_secret: {}")),
    "VirusTotal": (draw_from(HEX, 64), _name_forms("VT_API_KEY={}", "x-apikey: {}")),
    "FTP": (_join("ftp://me:", draw_from(ALNUM, 10), "@files.example.org/a"), ("{}", "curl {}")),
    "RabbitMQ": (_join("amqp://app:", draw_from(ALNUM, 18), "@mq:5672/"), ("BROKER={}", "url: {}")),
    "IMAP": (
        _password,
        _name_forms(
            "imap:\n  user: anna\n  password: {}\n",
        ),
    ),
    "Jupyter": (
        draw_from(HEX, 48),
        _name_forms("http://localhost:8888/?token={}", "http://127.0.0.1:8888/lab?token={} "),
    ),
    "GnuPG": (
        draw_from(ALNUM, 14),
        _name_forms(
            "gpg --batch --passphrase {} -d a.gpg",
        ),
    ),
    "TOML": (_password, _name_forms('[db]\nuser = "a"\npassword = "{}"', 'secret = "{}"')),
    "configuration with a comment": (
        draw_from(ALNUM, 14),
        _name_forms("password={} ; of the test server", "password = {}  # rotate"),
    ),
    "table": (draw_from(ALNUM, 14), _name_forms("| password | {} |", "password\t{}")),
    "log line": (
        draw_from(ALNUM, 12),
        _name_forms("login ok user=anna password={} ip=10.0.0.1", "WARN bad credential token={} retry"),
    ),
    "mail in French": (_password, _name_forms("Votre mot de passe : {}", "Le mot de passe est {}")),
    "code in Java": (
        draw_from(ALNUM, 16),
        _name_forms('private static final String PASSWORD = "{}";', 'ds.setPassword("{}");'),
    ),
    "Helm": (
        draw_from(ALNUM, 16),
        _name_forms("helm install x --set auth.password={} y", "--set postgresqlPassword={}"),
    ),
}
"""Kinds that were written down when the patterns had been: 0.94 of them were found, and two forms were added then."""


def make_secrets(kinds: Mapping[str, tuple[Make, tuple[str, ...]]], seed: int) -> Iterator[tuple[str, str, str]]:
    """Yield, for each kind, 20 texts: the kind, the text, and the secret in it."""
    draw = random.Random(seed)
    for kind, (make, forms) in kinds.items():
        for number in range(OF_A_KIND):
            value = make(draw)
            yield kind, forms[number % len(forms)].replace("{}", value).replace("{{", "{").replace("}}", "}"), value


NAMES = (
    "password",
    "DB_PASSWORD",
    "api_key",
    "API_KEY",
    "OPENAI_API_KEY",
    "secret",
    "client_secret",
    "SECRET_KEY",
    "token",
    "access_token",
    "auth_token",
    "GITHUB_TOKEN",
    "aws_secret_access_key",
    "passwd",
    "apiKey",
    "dbPassword",
    "private_key",
    "passphrase",
)
PLACEHOLDERS = (
    "********",
    "${%s}",
    "$%s",
    "<%s>",
    "<your-%s>",
    "your-%s-here",
    "YOUR_KEY_HERE",
    "xxxxxxxxxxxx",
    "XXXX-XXXX-XXXX",
    "{{ %s }}",
    "{{%s}}",
    "%%(%s)s",
    "changeme",
    "change-me",
    "CHANGE_ME",
    "REPLACE_ME",
    "replace-with-your-key",
    "[REDACTED]",
    "(hidden)",
    "...",
    "••••••••",
    "null",
    "None",
    "undefined",
    "required",
    "optional",
    "string",
    "example-value",
    "my-secret-value",
    "insert_token_here",
    "TODO",
    "dummy",
    "not-set",
    "os.environ['%s']",
    'os.getenv("%s")',
    "process.env.%s",
    "settings.%s",
    "self.%s",
    "config['%s']",
    "get_%s()",
    "getpass.getpass()",
    "/run/secrets/%s",
    "vault:secret/data/app#%s",
    "op://vault/item/%s",
    "sk-...",
    "sk-xxxxxxxxxxxxxxxxxxxxxxxx",
    "<redacted>",
    "*****",
    "secrets.%s",
    "var.%s",
    "!vault",
    "@%s@",
    "env:%s",
    "input",
    "fake-token",
    "test-key",
    "sample",
    "ENTER_YOUR_TOKEN",
    "<hidden>",
    "0000000000",
)
SEPARATORS = ("{}={}", "{}: {}", '"{}": "{}"', "{} = {}", "{}='{}'", "export {}={}", "--{} {}", "{}: {},")
PROSE = (
    "The {} is wrong, please try again.",
    "Forgot your {}? Click below to reset it.",
    "Enter a {} of at least 12 characters.",
    "The {} must contain a digit.",
    "Your {} expires in 30 days.",
    "A {} is stored as a hash.",
    "Never share your {} with anyone.",
    "The {}: what it is and why it matters.",
    "Is the {} required?",
    "The {} is required for all requests since version 2.1.",
    "Rotate the {} every 90 days.",
    "We changed the {} policy in 2024.",
    "{}: required, at least 8 characters",
    "The {} was rotated on 2024-05-01.",
    "How do I find my {}?",
    "Das {} ist falsch.",
    "max {} length = 4096",
    "{}_count: 128000",
    "The {} is called Q3-2024-report internally.",
    "{} type: bearer",
    "see section 4.2.1 for the {}",
    "a {} like this one is invalid",
    "The {} is base64-encoded and has 44 characters.",
    "If the {} is missing, the server returns 401.",
    "{} rotation is documented in RFC 6749.",
)
THINGS = (
    "password",
    "API key",
    "token",
    "secret",
    "access token",
    "passphrase",
    "private key",
    "client secret",
    "Passwort",
    "credential",
)
LOOKALIKES = (
    "commit {hex40}",
    "sha256:{hex64}",
    "md5 {hex32}",
    "id: {uuid}",
    "https://example.org/a/{hex32}.png",
    "chatcmpl-{alnum29}",
    "req_{alnum24}",
    "integrity sha512-{base64}",
    "primary_key={alnum12}",
    "next_page_token: {alnum20}",
    "cache_key = user:{digits}:profile",
    "tokens: {digits}",
    "public_key: {base64}",
    "max_tokens={digits}",
    "trace {hex32} span {hex16}",
    "key: value-{digits}",
    "etag: {hex32}",
    "pad_token = <pad>",
)


def make_harmless(seed: int) -> Iterator[tuple[str, str]]:
    """Yield placeholders, prose about secrets, and identifiers, each with its sort."""
    draw = random.Random(seed)
    for name in NAMES:
        for value in PLACEHOLDERS:
            yield "placeholders", draw.choice(SEPARATORS).format(name, value.replace("%s", name).replace("%%", "%"))
    for thing in THINGS:
        yield from (("prose about secrets", form.format(thing)) for form in PROSE)
    for _ in range(OF_A_KIND):
        fields = {
            "hex16": draw_from(HEX, 16)(draw),
            "hex32": draw_from(HEX, 32)(draw),
            "hex40": draw_from(HEX, 40)(draw),
            "hex64": draw_from(HEX, 64)(draw),
            "uuid": _uuid(draw),
            "alnum12": draw_from(ALNUM, 12)(draw),
            "alnum20": draw_from(ALNUM, 20)(draw),
            "alnum24": draw_from(ALNUM, 24)(draw),
            "alnum29": draw_from(ALNUM, 29)(draw),
            "base64": _base64(64)(draw),
            "digits": draw_from(digits, 5)(draw),
        }
        yield from (("identifiers", form.format(**fields)) for form in LOOKALIKES)
